//! Parses integers in JSON, which may have a point and an exponent: `1.20e2` is 120.

/// Holds every 64-bit integer of a message, signed or not.
pub type Integer = i128;

/// The most digits of an accepted integer: as many as `u64::MAX` has.
const DIGITS_MAX: usize = 20;

/// The integer value of a JSON number; `None` if the text is no number, has a fraction that is not
/// 0, or has more than 20 digits.
pub fn integer(text: &str) -> Option<Integer> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (mantissa, ""),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let padded = whole.len() > 1 && whole.starts_with('0');
    if whole.is_empty() || padded || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let exponent = exponent.map_or(Some("0"), |text| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        (!digits.is_empty() && all_digits(digits)).then_some(text)
    })?;
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return Some(0);
    }
    let value = shifted(whole, fraction, exponent.parse::<i32>().ok()?)?;
    Some(if negative { -value } else { value })
}

/// The integer with the digits `whole.fraction`, times ten to the power `exponent`.
fn shifted(whole: &str, fraction: &str, exponent: i32) -> Option<Integer> {
    let places = usize::try_from(exponent.unsigned_abs()).ok()?;
    if exponent < 0 {
        // Digits that move behind the decimal point must be 0.
        let kept = whole.len().checked_sub(places)?;
        let dropped = whole.get(kept..)?;
        let is_whole = fraction.is_empty() && dropped.bytes().all(|byte| byte == b'0');
        return if is_whole { digits(whole.get(..kept)?, "", 0) } else { None };
    }
    digits(whole, fraction, places.checked_sub(fraction.len())?)
}

/// The integer with the digits of `whole`, then those of `fraction`, then this many zeros.
fn digits(whole: &str, fraction: &str, zeros: usize) -> Option<Integer> {
    if whole.len().checked_add(fraction.len())?.checked_add(zeros)? > DIGITS_MAX {
        return None;
    }
    let all = whole.bytes().chain(fraction.bytes()).chain(core::iter::repeat_n(b'0', zeros));
    Some(all.fold(0, |value, digit| value * 10 + Integer::from(digit - b'0')))
}

#[cfg(test)]
mod tests;
