//! Reads from a program for Linux whether it is static. It must not depend on tools, which may be missing.

use anyhow::{Context as _, Result, ensure};

/// The type of the program header that names the dynamic loader.
const PT_INTERP: u32 = 3;

/// The dynamic loader that a 64-bit little-endian program needs; `None` if it is static.
pub(super) fn interpreter(program: &[u8]) -> Result<Option<String>> {
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF program");
    let headers = usize::try_from(number(program, 32, 8)?)?;
    let (size, count) =
        (usize::try_from(number(program, 54, 2)?)?, usize::try_from(number(program, 56, 2)?)?);
    for at in (0..count).map(|index| headers + index * size) {
        if number(program, at, 4)? == u64::from(PT_INTERP) {
            let (from, length) = (number(program, at + 8, 8)?, number(program, at + 32, 8)?);
            let (from, length) = (usize::try_from(from)?, usize::try_from(length)?);
            let name = program.get(from..from + length).context("the program is cut")?;
            return Ok(Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

fn number(program: &[u8], at: usize, bytes: usize) -> Result<u64> {
    let found = program.get(at..at + bytes).context("the program is cut")?;
    Ok(found.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
