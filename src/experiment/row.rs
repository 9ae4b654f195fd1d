//! Rows of `results/<profile>/<table>/<column>.csv`: which run a row is the result of, and how it stands to the experiment.
//!
//! A row is identified by its mix, variant and seed. It is replaced only by a newer finished result of that run with the
//! settings that the experiment file plans; every other row is kept, and the column `status` says how it stands to the file.

use super::{Mix, Plan, Run};

/// How a row stands to the experiment file, as the column `status` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowStatus {
    /// The experiment file plans this run with these settings.
    Current,
    /// The file has the settings of this row, but not its mix or seed.
    NotPlanned,
    /// The row's config hash is not that of the file's settings, or its variant is not in the file.
    OtherSettings,
    /// The settings are those of the file; the data are not those of the newest row of this variant.
    OtherData,
}

impl RowStatus {
    /// Every status.
    pub const ALL: [RowStatus; 4] =
        [RowStatus::Current, RowStatus::NotPlanned, RowStatus::OtherSettings, RowStatus::OtherData];

    /// As it stands in the column `status`.
    pub fn text(self) -> &'static str {
        match self {
            RowStatus::Current => "current",
            RowStatus::NotPlanned => "not planned",
            RowStatus::OtherSettings => "other settings",
            RowStatus::OtherData => "other data",
        }
    }

    /// Whether the row can be compared with current ones: it has their settings and data.
    pub fn is_comparable(self) -> bool {
        matches!(self, RowStatus::Current | RowStatus::NotPlanned)
    }
}

/// Mix and variant, so that `V+R` and `R + V` are one row of a table.
pub fn row_key(mix: &str, variant: &str) -> (String, String) {
    let compact: String = mix.chars().filter(|c| !c.is_whitespace()).collect();
    let mut terms: Vec<&str> = compact.split('+').collect();
    terms.sort_unstable();
    (terms.join("+"), variant.to_string())
}

impl Plan {
    /// How a row of this mix, variant, seed and config hash stands to the plan. Data are not looked at.
    pub fn status_of(&self, mix: &str, variant: &str, seed: u64, config_hash: &str) -> RowStatus {
        let of_variant = || self.runs.iter().filter(|planned| planned.run.variant.as_deref().unwrap_or("") == variant);
        let key = row_key(mix, variant);
        let of_run = of_variant()
            .find(|planned| planned.run.seed == seed && row_key(&planned.run.mix.to_string(), variant) == key);
        if let Some(planned) = of_run {
            return if planned.hash == config_hash { RowStatus::Current } else { RowStatus::OtherSettings };
        }
        let (Some(like), Ok(mix)) = (of_variant().next(), Mix::parse(mix)) else { return RowStatus::OtherSettings };
        let as_planned = Run { mix, seed, ..like.run.clone() };
        if as_planned.hash() == config_hash {
            RowStatus::NotPlanned
        } else {
            RowStatus::OtherSettings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use std::path::Path;

    fn plan(mixes: &str, seeds: &str, rest: &str) -> Plan {
        let text = format!("task = \"language-modelling\"\nmix = {mixes}\nseeds = {seeds}\n{rest}");
        Experiment::parse(Path::new("toy.toml"), &text).unwrap().plan(Path::new("results")).unwrap()
    }

    #[test]
    fn the_order_of_terms_makes_no_row() {
        assert_eq!(row_key("V+R", ""), row_key("R + V", ""));
        assert_ne!(row_key("V", ""), row_key("V", "control"));
        assert_ne!(row_key("R+V", ""), row_key("R+D", ""));
    }

    #[test]
    fn rows_of_earlier_files_are_told_apart() {
        let variant = "[[variant]]\nname = \"deep\"\nmix = \"V\"\n[variant.model]\ndecoder_layers = 8\n";
        let earlier = plan(r#"["V", "R", "D"]"#, "[1, 2]", variant);
        let hash = |name: &str| earlier.runs.iter().find(|planned| planned.name == name).unwrap().hash.clone();
        // fewer mixes, fewer seeds, no variant
        let now = plan(r#"["V", "R"]"#, "[1]", "");
        let changed = plan(r#"["V", "R"]"#, "[1]", "[train]\nsteps = 77\n");
        for (name, mix, variant, seed, status) in [
            ("V-s1", "V", "", 1, RowStatus::Current),
            ("D-s1", "D", "", 1, RowStatus::NotPlanned),
            ("V-s2", "V", "", 2, RowStatus::NotPlanned),
            ("V.deep-s1", "V", "deep", 1, RowStatus::OtherSettings),
            // a hash of another run
            ("R-s1", "V", "", 1, RowStatus::OtherSettings),
            ("R-s1", "nonsense", "", 1, RowStatus::OtherSettings),
        ] {
            assert_eq!(now.status_of(mix, variant, seed, &hash(name)), status, "{name} as {mix}");
            assert_eq!(changed.status_of(mix, variant, seed, &hash(name)), RowStatus::OtherSettings, "{name}");
        }
        assert_eq!(now.status_of("V", "", 1, ""), RowStatus::OtherSettings, "no hash");
    }
}
