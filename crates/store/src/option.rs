//! Values of options as people write them: sizes with K, M, G, T as powers of 1024, and booleans.
//! One strict parser for configuration files, flags and engine sections: what does not parse is
//! an error that names the value, never a silent default.

/// Parses a size: digits, an optional fraction, blanks, and one of `K M G T` in either case as
/// powers of 1024. `64M` is 67,108,864; a bare number is bytes; `64MB` and `true` are refused.
///
/// # Errors
/// One sentence that names the value and the accepted form.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let refuse = || {
        format!(
            "'{text}' is not a size: write a number with K, M, G or T for powers of 1024 \
             (64M, 1.5G)"
        )
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(split);
    let shift = match suffix.trim_start() {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(refuse()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(refuse);
    }
    // A fraction needs a suffix: there is no fraction of a byte.
    if !number.starts_with(|c: char| c.is_ascii_digit()) || shift == 0 {
        return Err(refuse());
    }
    let value = number.parse::<f64>().map_err(|_| refuse())? * (1u64 << shift) as f64;
    // 2^63 keeps the conversion exact in range; a fraction of a byte is dropped.
    if value.is_finite() && value < 9.2e18 { Ok(value as u64) } else { Err(refuse()) }
}

/// Parses a boolean: `true yes on 1` and `false no off 0`, in any case.
///
/// # Errors
/// One sentence that names the value and the accepted forms.
pub fn parse_bool(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => {
            Err(format!("'{text}' is not a yes or no: write true, yes, on, 1 or false, no, off, 0"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_and_strict() {
        let table: &[(&str, u64)] = &[
            ("0", 0),
            ("17", 17),
            ("64M", 64 << 20),
            ("64 m", 64 << 20),
            ("1.5G", 3 << 29),
            (" 2T ", 2 << 40),
            ("0.5K", 512),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in table {
            assert_eq!(parse_size(text), Ok(*bytes), "{text}");
        }
        let bad = [
            "",
            "M",
            "64MB",
            "true",
            "-1",
            "1e3",
            "1..2",
            "0x10",
            ".5M",
            "1.5",
            "64 M B",
            "99999999T",
        ];
        for text in bad {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn true_is_true_and_not_zero_terabytes() {
        for text in ["true", "Yes", "ON", "1"] {
            assert_eq!(parse_bool(text), Ok(true));
        }
        for text in ["false", "no", "Off", "0"] {
            assert_eq!(parse_bool(text), Ok(false));
        }
        assert!(parse_bool("2").is_err());
        assert!(parse_bool("").is_err());
    }
}
