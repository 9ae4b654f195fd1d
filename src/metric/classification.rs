//! What classification is measured by.

/// A measure of a classification task. Values are reported x 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Share of rows whose class is right.
    Accuracy,
    /// F1 of class 1.
    F1,
    /// Mean of the classes' F1 (CB).
    MacroF1,
    /// Matthews correlation coefficient (CoLA).
    Matthews,
    /// Pearson correlation of scores (STS-B).
    Pearson,
    /// Spearman rank correlation of scores (STS-B).
    Spearman,
    /// Share of groups whose row with the highest score for class 1 has the label 1 (COPA).
    GroupAccuracy,
    /// F1 of class 1 over all rows of all groups, F1a (MultiRC).
    GroupF1,
    /// Share of groups of which every row is right (MultiRC).
    GroupExact,
    /// Mean over groups of the best token F1 of the chosen candidate with a gold answer (ReCoRD).
    RecordF1,
    /// Share of groups whose chosen candidate equals a gold answer after normalization (ReCoRD).
    RecordExact,
}
