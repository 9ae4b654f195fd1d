//! The file of a checkpoint: safetensors with a checksum over every byte.
//!
//! The header's metadata hold the state (JSON) and `digest`: 8 hexadecimal digits of the CRC-32C of the header (with its
//! length, and with zeros in place of these 8), then 8 of the tensors' bytes. So the header alone can be checked too, which is
//! all that is read to say where a run stands. Texts are tensors of bytes, named `text.NAME`.

use super::State;
use crate::checksum;
use anyhow::{bail, Context, Result};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use tch::{Kind, Tensor};

const STATE: &str = "state";
const DIGEST: &str = "digest";
const NO_DIGEST: &str = "0000000000000000";
/// Digits of one checksum; the header's come first.
const DIGITS: usize = NO_DIGEST.len() / 2;
const TEXT: &str = "text.";

/// A checkpoint that cannot be used, and why.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// Such as `it was cut off`.
    pub why: String,
}

/// Texts by name.
pub type Texts = BTreeMap<String, String>;

/// All that a checkpoint holds.
pub(super) struct Contents {
    pub(super) tensors: BTreeMap<String, Tensor>,
    pub(super) texts: Texts,
    pub(super) state: State,
    /// False where a version of this program wrote it that stored no checksum.
    pub(super) checked: bool,
}

type Raw = (String, Dtype, Vec<usize>, Vec<u8>);

fn raw(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<Raw>> {
    let one = |(name, tensor): (&String, &Tensor)| {
        let tensor = tensor.detach().to_device(tch::Device::Cpu).contiguous();
        let shape: Vec<usize> = tensor.size().iter().map(|&size| size as usize).collect();
        let mut bytes = vec![0u8; tensor.numel() * tensor.kind().elt_size_in_bytes()];
        tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
        Ok((name.clone(), dtype(tensor.kind())?, shape, bytes))
    };
    tensors.iter().map(one).collect()
}

fn serialized(raw: &[Raw], metadata: HashMap<String, String>) -> Result<Vec<u8>> {
    let views = raw
        .iter()
        .map(|(name, dtype, shape, bytes)| Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok(safetensors::serialize(views, Some(metadata))?)
}

/// A safetensors file of float and int64 tensors, in memory, without a digest: for other programs.
pub(super) fn plain(tensors: &BTreeMap<String, Tensor>, metadata: HashMap<String, String>) -> Result<Vec<u8>> {
    serialized(&raw(tensors)?, metadata)
}

/// The bytes of a checkpoint.
pub(super) fn bytes(tensors: &BTreeMap<String, Tensor>, texts: &Texts, state: &State) -> Result<Vec<u8>> {
    let mut raw = raw(tensors)?;
    let text = |(name, text): (&String, &String)| {
        (format!("{TEXT}{name}"), Dtype::U8, vec![text.len()], text.clone().into_bytes())
    };
    raw.extend(texts.iter().map(text));
    let metadata =
        HashMap::from([(STATE.into(), serde_json::to_string(state)?), (DIGEST.into(), NO_DIGEST.to_string())]);
    let mut bytes = serialized(&raw, metadata)?;
    drop(raw);
    let end = header_end(&bytes).context("a header without its length")?;
    let at = digest_place(&bytes[..end]).context("a header without its digest")?;
    let of_data = format!("{:08x}", checksum::of_bytes(&bytes[end..]));
    bytes[at + DIGITS..at + 2 * DIGITS].copy_from_slice(of_data.as_bytes());
    let of_header = digest(&bytes[..end], at);
    bytes[at..at + DIGITS].copy_from_slice(of_header.as_bytes());
    Ok(bytes)
}

/// Where the tensors' bytes begin, by the length in the first 8 bytes.
fn header_end(bytes: &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    (length <= rest.len()).then(|| 8 + length)
}

/// Where the digest's digits stand in a header. In the state, which is a JSON text in JSON, quotes have backslashes.
fn digest_place(header: &[u8]) -> Option<usize> {
    let before = format!("\"{DIGEST}\":\"");
    let at = memchr::memmem::find(header, before.as_bytes())? + before.len();
    (header.get(at + NO_DIGEST.len()) == Some(&b'"')).then_some(at)
}

/// Checksum of a header (with its length) whose digest stands at `at`.
fn digest(header: &[u8], at: usize) -> String {
    let mut header = header.to_vec();
    header[at..at + DIGITS].fill(b'0');
    format!("{:08x}", checksum::of_bytes(&header))
}

/// What the metadata of a header hold, checked; the checksum of the tensors' bytes that is expected, none in a file of before.
fn checked_header(header: &[u8]) -> std::result::Result<(State, Option<String>), String> {
    let parsed: Option<Metadata> = serde_json::from_slice(&header[8..]).ok();
    let metadata = parsed.as_ref().and_then(|parsed| parsed.metadata().as_ref());
    let state = metadata.and_then(|metadata| metadata.get(STATE));
    let place = digest_place(header);
    // Neither the checksum nor what has been in every state since: an older version's. Damage to one of the two leaves the other.
    let is_old = place.is_none() && state.is_some_and(|state| !state.contains("\"numerics\"")) && {
        metadata.is_some_and(|metadata| metadata.len() == 1)
    };
    let data = match place {
        None if is_old => None,
        None => return Err("its header is damaged".into()),
        Some(at) => {
            let expected = String::from_utf8_lossy(&header[at..at + NO_DIGEST.len()]).into_owned();
            let found = digest(header, at);
            let (of_header, of_data) = expected.split_at_checked(DIGITS).unwrap_or_default();
            if found != of_header {
                return Err(format!("its header is damaged (checksum {found}, expected {of_header})"));
            }
            Some(of_data.to_string())
        }
    };
    let state = state.and_then(|state| serde_json::from_str(state).ok());
    Ok((state.ok_or("its state cannot be read; another version of this program wrote it")?, data))
}

/// Reads the whole file and checks it.
///
/// # Errors
/// [`Damaged`], for a file that cannot be read too.
pub(super) fn read_bytes(path: &Path) -> Result<(Vec<u8>, State, bool)> {
    let damaged = |why: String| Damaged { path: path.into(), why };
    let bytes = std::fs::read(path).map_err(|error| damaged(unreadable(&error)))?;
    let end = header_end(&bytes).ok_or_else(|| damaged("it was cut off".into()))?;
    let (state, data) = checked_header(&bytes[..end]).map_err(damaged)?;
    if let Some(expected) = &data {
        let found = format!("{:08x}", checksum::of_bytes(&bytes[end..]));
        if found != *expected {
            return Err(damaged(format!("it is damaged (checksum {found}, expected {expected})")).into());
        }
    }
    Ok((bytes, state, data.is_some()))
}

/// Reads and checks a checkpoint.
///
/// # Errors
/// [`Damaged`].
pub(super) fn read(path: &Path) -> Result<Contents> {
    let (bytes, state, checked) = read_bytes(path)?;
    let damaged = |why: &str| Damaged { path: path.into(), why: why.into() };
    let file = SafeTensors::deserialize(&bytes).map_err(|_| damaged("it was cut off, or is damaged"))?;
    let (mut tensors, mut texts) = (BTreeMap::new(), Texts::new());
    for (name, view) in file.tensors() {
        if let Some(name) = name.strip_prefix(TEXT) {
            let text = String::from_utf8(view.data().to_vec()).map_err(|_| damaged("a text in it is no UTF-8"))?;
            texts.insert(name.to_string(), text);
            continue;
        }
        let shape: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
        tensors.insert(name, Tensor::f_from_data_size(view.data(), &shape, kind(view.dtype())?)?);
    }
    Ok(Contents { tensors, texts, state, checked })
}

/// Reads and checks the header alone, which safetensors put first.
///
/// # Errors
/// [`Damaged`].
pub(super) fn read_state(path: &Path) -> Result<State> {
    let damaged = |why: String| Damaged { path: path.into(), why };
    let unreadable = |error: std::io::Error| damaged(unreadable(&error));
    let mut file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut header = vec![0; 8];
    let cut = || damaged("it was cut off".into());
    file.read_exact(&mut header).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => cut(),
        _ => unreadable(error),
    })?;
    let length = header.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    // a length that no file has must not be allocated
    let data = size.checked_sub(8).and_then(|rest| rest.checked_sub(length)).ok_or_else(cut)?;
    file.take(length).read_to_end(&mut header).map_err(unreadable)?;
    let (state, _) = checked_header(&header).map_err(damaged)?;
    let described: Option<Metadata> = serde_json::from_slice(&header[8..]).ok();
    if described.map(|header| header.data_len() as u64) != Some(data) {
        return Err(cut().into());
    }
    Ok(state)
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "it is missing".into(),
        _ => format!("it cannot be read: {error}"),
    }
}

fn dtype(kind: Kind) -> Result<Dtype> {
    Ok(match kind {
        Kind::Float => Dtype::F32,
        Kind::Double => Dtype::F64,
        Kind::Int64 => Dtype::I64,
        kind => bail!("a checkpoint can't hold {kind:?}"),
    })
}

fn kind(dtype: Dtype) -> Result<Kind> {
    Ok(match dtype {
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        Dtype::I64 => Kind::Int64,
        dtype => bail!("a checkpoint can't hold {dtype:?}"),
    })
}
