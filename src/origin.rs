//! Where and by what a result was made: program, commit, processor, time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The git commit that this program was built from, 40 hexadecimal digits; `unknown` outside a git checkout.
pub const GIT_COMMIT: &str = env!("SYNTHESIZER_GIT_COMMIT");

/// Whether the program's sources were those of the commit when it was built: `clean`, `modified` or `unknown`.
pub const GIT_STATE: &str = env!("SYNTHESIZER_GIT_STATE");

/// The processor's model name, by Linux; elsewhere its architecture.
pub fn cpu() -> String {
    model_name(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
        .unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

/// From `/proc/cpuinfo`: x86 and POWER name the model; ARM64 gives numbers, which are not looked up.
fn model_name(about: &str) -> Option<String> {
    let named = |wanted: &str| {
        let mut lines = about.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == wanted).map(|(_, name)| name.trim().to_string())
    };
    ["model name", "Model", "cpu"].into_iter().find_map(named).filter(|name| !name.is_empty())
}

/// The time now in UTC, such as `2026-11-30T20:15:00Z`.
pub fn now() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date and time.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since March 1 of year 0: leap days then come last in a year. An era is 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_date_writes_them() {
        // `date -u -d @SECONDS +%FT%TZ`
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_798_675_199, "2026-12-30T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    #[test]
    fn processors_are_named() {
        assert_eq!(model_name("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n").as_deref(), Some("A CPU @ 2 GHz"));
        assert_eq!(model_name("processor\t: 0\nBogoMIPS\t: 50\nCPU part\t: 0xd0c\n"), None);
        assert!(!cpu().is_empty());
    }

    #[test]
    fn the_build_knows_its_commit_or_says_that_it_does_not() {
        let is_hash = GIT_COMMIT.len() == 40 && GIT_COMMIT.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_hash || GIT_COMMIT == "unknown", "{GIT_COMMIT}");
        assert_eq!(GIT_COMMIT == "unknown", GIT_STATE == "unknown");
        assert!(["clean", "modified", "unknown"].contains(&GIT_STATE));
    }
}
