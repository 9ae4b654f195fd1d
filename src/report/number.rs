//! How numbers are written for people.

/// The minus sign of print.
pub const MINUS: char = '\u{2212}';

/// With `decimals` places; a rounded-off negative zero loses its sign.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.*}", decimals, value.abs());
    let zero = text.bytes().all(|b| b == b'0' || b == b'.');
    if value < 0.0 && !zero {
        format!("{MINUS}{text}")
    } else {
        text
    }
}

/// As [`fixed`], with a plus sign before positive values: a difference.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let zero = text.bytes().all(|b| b == b'0' || b == b'.');
    if value > 0.0 && !zero {
        format!("+{text}")
    } else {
        text
    }
}

/// An integer with commas between thousands.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits with k, M, G or T: 1234567 is `1.23M`.
pub fn compact(value: f64) -> String {
    let mut scaled = value;
    let mut unit = 0;
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    while scaled.abs() >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{}{}", significant(scaled, 3), UNITS[unit])
}

/// `digits` significant digits, without an exponent: 0.012345 is `0.0123` for 3.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return fixed(value, 0);
    }
    // Rounded first, so that 99.96 counts as 100 and not as two digits before the point.
    let rounded: f64 = format!("{:.*e}", digits - 1, value).parse().unwrap_or(value);
    let magnitude = rounded.abs().log10().floor() as i64;
    fixed(rounded, (digits as i64 - 1 - magnitude).max(0) as usize)
}

/// Decimal places of a number as somebody typed it.
pub fn places(text: &str) -> usize {
    text.rsplit_once('.').map_or(0, |(_, after)| after.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_and_signs() {
        assert_eq!(fixed(27.3, 2), "27.30");
        assert_eq!(fixed(-0.004, 2), "0.00");
        assert_eq!(fixed(-1.25, 1), "\u{2212}1.2");
        assert_eq!(signed(0.8, 2), "+0.80");
        assert_eq!(signed(0.001, 2), "0.00");
        assert_eq!(signed(-3.78, 2), "\u{2212}3.78");
    }

    #[test]
    fn thousands_and_units() {
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(3148800), "3,148,800");
        assert_eq!(compact(68e6), "68.0M");
        assert_eq!(compact(999_700.0), "1.00M");
        assert_eq!(compact(1_234_567.0), "1.23M");
        assert_eq!(compact(512.0), "512");
    }

    #[test]
    fn significant_digits() {
        assert_eq!(significant(0.012345, 3), "0.0123");
        assert_eq!(significant(99.96, 3), "100");
        assert_eq!(significant(9.996, 3), "10.0");
        assert_eq!(significant(1234.5, 3), "1230");
        assert_eq!(places("27.30"), 2);
        assert_eq!(places("68"), 0);
    }
}
