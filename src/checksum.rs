//! CRC-32C of large files and buffers, on all cores.
//!
//! CRC-32C finds accidental damage: every flipped run of up to 32 bits, and other damage but for one case in four billion. It is
//! no protection against forgery, which nobody gains from here, and processors compute it at the speed of memory, so a file of
//! any size can be checked whole before its first use.

use crate::interrupt;
use rayon::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that one thread takes at a time.
const BLOCK: usize = 1 << 20;

/// The checksum of a buffer.
pub fn of_bytes(bytes: &[u8]) -> u32 {
    let blocks: Vec<(u32, usize)> = bytes.par_chunks(BLOCK).map(|block| (crc32c::crc32c(block), block.len())).collect();
    combine(blocks)
}

/// The checksum of a file's first `size` bytes. Memory holds a mebibyte per thread.
///
/// # Errors
/// A file that is shorter or cannot be read; Ctrl-C.
pub fn of_file(file: &File, size: u64) -> anyhow::Result<u32> {
    let blocks = (0..size.div_ceil(BLOCK as u64)).into_par_iter().map_init(Vec::new, |buffer, block| {
        interrupt::check()?;
        let at = block * BLOCK as u64;
        buffer.resize((size - at).min(BLOCK as u64) as usize, 0);
        file.read_exact_at(buffer, at)?;
        anyhow::Ok((crc32c::crc32c(buffer), buffer.len()))
    });
    Ok(combine(blocks.collect::<anyhow::Result<_>>()?))
}

fn combine(blocks: Vec<(u32, usize)>) -> u32 {
    blocks.into_iter().fold(0, |sum, (block, length)| crc32c::crc32c_combine(sum, block, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_combine_to_the_checksum_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
            let bytes: Vec<u8> = (0..size).map(|at| ((at * 31) >> 3) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let whole = crc32c::crc32c(&bytes);
            assert_eq!(of_bytes(&bytes), whole, "{size}");
            let file = File::open(&path).unwrap();
            assert_eq!(of_file(&file, size as u64).unwrap(), whole, "{size}");
            assert!(of_file(&file, size as u64 + 1).is_err(), "{size}");
        }
        // the check value of the Castagnoli polynomial
        assert_eq!(of_bytes(b"123456789"), 0xe306_9283);
    }
}
