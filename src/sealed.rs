//! Cache files that end in a seal, by which damage is found before a file is used.
//!
//! A seal has 16 bytes, little-endian: the length of the content before it (8 bytes), its CRC-32C (4), and `SEAL`. A file is
//! written under a temporary name, sealed, and renamed to its own, so readers and other writers never see half of one.

use crate::checksum;
use crate::files::{write_atomically, Temporary};
use crate::terminal::tell;
use anyhow::{bail, Context, Result};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: &[u8; 4] = b"SEAL";
/// Bytes of a seal.
pub const SEAL: u64 = 16;

/// What lies at the path of a cache file.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Missing,
    /// Something that cannot be used, and why.
    Damaged(String),
    /// A whole file, and how many bytes its content has.
    Whole(File, u64),
}

/// Opens a sealed file and checks all of it.
///
/// # Errors
/// Ctrl-C. A file that cannot be read is [`Found::Damaged`].
pub fn open(path: &Path) -> Result<Found> {
    let opened = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => return Ok(Found::Damaged("it is a folder".into())),
        // a pipe would be waited for without end
        Ok(found) if !found.is_file() => return Ok(Found::Damaged("it is not a regular file".into())),
        Ok(_) => File::open(path).and_then(|file| Ok((file.metadata()?.len(), file))),
    };
    let (size, file) = match opened {
        Ok(opened) => opened,
        // another process has just replaced or removed it
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Ok(Found::Damaged(format!("it cannot be read: {error}"))),
    };
    match check(&file, size) {
        Ok(Ok(content)) => Ok(Found::Whole(file, content)),
        Ok(Err(why)) => Ok(Found::Damaged(why)),
        Err(error) if error.is::<crate::interrupt::Interrupted>() => Err(error),
        Err(error) => Ok(Found::Damaged(format!("it cannot be read: {error}"))),
    }
}

/// The length of the content, or what is wrong.
fn check(file: &File, size: u64) -> Result<std::result::Result<u64, String>> {
    let Some(content) = size.checked_sub(SEAL) else { return Ok(Err(format!("it has {size} bytes"))) };
    let mut seal = [0; SEAL as usize];
    file.read_exact_at(&mut seal, content)?;
    let wanted = seal_of(content, checksum::of_file(file, content)?);
    Ok(if seal == wanted {
        Ok(content)
    } else if seal[12..] != wanted[12..] || seal[..8] != wanted[..8] {
        Err("it was cut off, or its end was changed".into())
    } else {
        let [found, wanted] = [&wanted, &seal].map(|seal| u32::from_le_bytes([seal[8], seal[9], seal[10], seal[11]]));
        Err(format!("its checksum is {found:08x}, and {wanted:08x} was expected"))
    })
}

fn seal_of(length: u64, checksum: u32) -> [u8; SEAL as usize] {
    let mut seal = [0; SEAL as usize];
    seal[..8].copy_from_slice(&length.to_le_bytes());
    seal[8..12].copy_from_slice(&checksum.to_le_bytes());
    seal[12..].copy_from_slice(MAGIC);
    seal
}

/// Appends the seal to a file that is open for reading and writing, and makes the file durable.
///
/// # Errors
/// A file that cannot be read or written; Ctrl-C.
pub fn seal(file: &File) -> Result<()> {
    let length = file.metadata()?.len();
    file.write_all_at(&seal_of(length, checksum::of_file(file, length)?), length)?;
    Ok(file.sync_all()?)
}

/// Writes a small file with its seal, whole or not at all.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    make_way(path)?;
    let seal = seal_of(content.len() as u64, checksum::of_bytes(content));
    write_atomically(path, &[content, &seal].concat())
}

/// Renames a sealed file to its own name, over what is there.
///
/// # Errors
/// A folder with something in it stands there; the file cannot be renamed.
pub fn put_in_place(temporary: Temporary, path: &Path) -> Result<()> {
    make_way(path)?;
    temporary.rename(path).with_context(|| format!("can't write {}", path.display()))
}

/// Removes an empty folder that stands in the way of a cache file.
///
/// # Errors
/// The folder holds something, which is the user's to look at.
pub fn make_way(path: &Path) -> Result<()> {
    if path.is_dir() && fs::remove_dir(path).is_err() {
        bail!("{} is a folder, where the cache keeps a file of this name: remove the folder", path.display());
    }
    Ok(())
}

/// Tells the user on standard error that a cache file is made again.
pub fn tell_rebuild(path: &Path, why: &str) {
    tell(&format!("{}: this cache file cannot be used ({why}); building it again", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flip_of_any_byte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(matches!(open(&path).unwrap(), Found::Missing));
        for content in [&b""[..], b"some text of a cache file\n\n"] {
            write(&path, content).unwrap();
            let whole = fs::read(&path).unwrap();
            assert!(matches!(open(&path).unwrap(), Found::Whole(_, length) if length == content.len() as u64));
            for at in 0..whole.len() {
                for flip in [1, 0x29, 0x80, 0xff] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= flip;
                    fs::write(&path, bytes).unwrap();
                    assert!(matches!(open(&path).unwrap(), Found::Damaged(_)), "byte {at} ^ {flip:#x}");
                }
                fs::write(&path, &whole[..at]).unwrap();
                assert!(matches!(open(&path).unwrap(), Found::Damaged(_)), "cut at {at}");
            }
            fs::write(&path, [&whole[..], b"\0"].concat()).unwrap();
            assert!(matches!(open(&path).unwrap(), Found::Damaged(_)), "a byte more");
        }
    }

    #[test]
    fn other_things_than_files_are_damage_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::create_dir(&path).unwrap();
        assert!(matches!(open(&path).unwrap(), Found::Damaged(why) if why.contains("folder")));
        write(&path, b"an empty folder is replaced").unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("something")).unwrap();
        let error = write(&path, b"").unwrap_err().to_string();
        assert!(error.contains("remove the folder"), "{error}");
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(matches!(open(&pipe).unwrap(), Found::Damaged(why) if why.contains("regular")));
        std::os::unix::fs::symlink(folder.path().join("loop"), folder.path().join("loop")).unwrap();
        assert!(matches!(open(&folder.path().join("loop")).unwrap(), Found::Damaged(_)));
    }
}
