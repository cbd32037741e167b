//! Formats numbers for readers: with three significant digits and separated thousands.

/// The most significant digits that are shown.
const DIGITS: i32 = 3;

/// A number with at most [`DIGITS`] significant digits: `12,300`, `2.5`, `0.0123`.
pub fn shown(value: f64) -> String {
    if !value.is_finite() {
        return "?".to_string();
    }
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let step = 10f64.powi((magnitude + 1 - DIGITS).max(0));
    let decimals = (DIGITS - 1 - magnitude).clamp(0, 12) as usize;
    let rounded = if step > 1.0 { (value / step).round() * step } else { value };
    let text = format!("{rounded:.decimals$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_thousands(text)
}

/// Two numbers as a range: `11,900–12,800`.
pub fn range((least, most): (f64, f64)) -> String {
    format!("{}–{}", shown(least), shown(most))
}

/// A factor as the change in percent, with a sign: 1.032 is `+3.2 %`.
pub fn change(factor: f64) -> String {
    let percent = (factor - 1.0) * 100.0;
    let decimals = if percent.abs() < 99.95 { 1 } else { 0 };
    let text = format!("{percent:+.decimals$}");
    let text = if text == "-0.0" { "+0.0" } else { text.as_str() };
    let (sign, digits) = text.split_at(1);
    format!("{}{} %", if sign == "-" { "−" } else { "+" }, with_thousands(digits))
}

/// A count of bytes in the largest binary unit that leaves a number of at least 1.
pub fn bytes(count: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", shown(value), units[unit])
}

/// A duration in seconds, minutes or hours.
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{} s", shown(seconds)),
        seconds if seconds < 7_200.0 => format!("{} min", shown(seconds / 60.0)),
        seconds => format!("{} h", shown(seconds / 3_600.0)),
    }
}

/// Inserts commas between the thousands of a decimal number.
fn with_thousands(text: &str) -> String {
    let unsigned = text.trim_start_matches('-');
    let (whole, fraction) = match unsigned.find('.') {
        Some(at) => unsigned.split_at(at),
        None => (unsigned, ""),
    };
    let mut out = String::from(if unsigned.len() < text.len() { "-" } else { "" });
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        let check = |value: f64, expected: &str| assert_eq!(shown(value), expected, "{value}");
        check(0.0, "0");
        check(3.0, "3");
        check(2.5, "2.5");
        check(2.456, "2.46");
        check(0.012_345, "0.0123");
        check(123.4, "123");
        check(999.6, "1,000");
        check(9.996, "10");
        check(12_345.0, "12,300");
        check(1_234_567.0, "1,230,000");
        check(-12_345.0, "-12,300");
        check(f64::NAN, "?");
        check(f64::INFINITY, "?");
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(bytes(512), "512 bytes");
        assert_eq!(bytes(24 << 30), "24 GiB");
        assert_eq!(duration(90.0), "90 s");
        assert_eq!(duration(3_000.0), "50 min");
        assert_eq!(duration(9_000.0), "2.5 h");
        assert_eq!(range((11_940.0, 12_800.0)), "11,900–12,800");
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(change(1.032), "+3.2 %");
        assert_eq!(change(0.98), "−2.0 %");
        assert_eq!(change(0.999_99), "+0.0 %");
        assert_eq!(change(21.0), "+2,000 %");
    }
}
