//! Parses sizes and times in the form that people write: `64MiB`, `200ms`.
//!
//! A size in bytes needs no unit, but a time does: in every system that allowed `timeout = 30`,
//! some people read it as milliseconds and others as seconds.

/// Parses a size into bytes: an integer, then nothing or one of `B KiB MiB GiB kB KB MB GB` (powers
/// of 1024 with the `i`, of 1000 without).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let scale: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => {
            return Err(format!("{text:?} is not a size; write it like 512, 64KiB or 1GiB"));
        }
    };
    number.checked_mul(scale).ok_or_else(|| format!("{text:?} is too large"))
}

/// Parses a time into milliseconds: an integer and one of `ms s m h`.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let scale: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => {
            return Err(format!("{text:?} is not a time; write it like 200ms, 30s or 5m"));
        }
    };
    number.checked_mul(scale).ok_or_else(|| format!("{text:?} is too large"))
}

/// Splits a text into its number, without a sign, and its unit, which spaces may separate.
fn split(text: &str) -> Result<(u64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(format!("{text:?} does not start with a number"));
    }
    let number = digits.parse().map_err(|_| format!("{text:?} is too large"))?;
    Ok((number, unit.trim_start()))
}
