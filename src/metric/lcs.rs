//! Longest common subsequences of words: their length, and one of them.

/// The length of a longest common subsequence, in memory for one row of the shorter text.
pub(super) fn length<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut row = vec![0; short.len() + 1];
    for word in long {
        let mut diagonal = 0;
        for (i, other) in short.iter().enumerate() {
            let above = row[i + 1];
            row[i + 1] = if word == other { diagonal + 1 } else { above.max(row[i]) };
            diagonal = above;
        }
    }
    row[short.len()]
}

/// The places in `reference` of a longest common subsequence with `candidate`, ascending. Of several the one that
/// ROUGE-1.5.5 and rouge-score read out of the table, from the ends on: equal words belong to it, else the shorter
/// candidate only where that is better than the shorter reference.
pub(super) fn positions<T: PartialEq>(reference: &[T], candidate: &[T]) -> Vec<usize> {
    let width = candidate.len() + 1;
    let mut table = vec![0u32; (reference.len() + 1) * width];
    for (i, word) in reference.iter().enumerate() {
        for (j, other) in candidate.iter().enumerate() {
            let (above, here) = (i * width + j, (i + 1) * width + j);
            table[here + 1] = if word == other { table[above] + 1 } else { table[above + 1].max(table[here]) };
        }
    }
    let (mut i, mut j) = (reference.len(), candidate.len());
    let mut found = Vec::with_capacity(table[i * width + j] as usize);
    while i > 0 && j > 0 {
        if reference[i - 1] == candidate[j - 1] {
            (i, j) = (i - 1, j - 1);
            found.push(i);
        } else if table[i * width + j - 1] > table[(i - 1) * width + j] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_read_out_is_as_long_as_the_length_and_common() {
        let texts: Vec<Vec<u8>> = (0u32..400)
            .map(|i| (0..i % 9).map(|j| (i.wrapping_mul(2654435761) >> (3 * j)) as u8 % 3).collect())
            .collect();
        for (a, b) in texts.iter().zip(&texts[37..]) {
            let places = positions(a, b);
            assert_eq!((places.len(), places.len()), (length(a, b), length(b, a)), "{a:?} {b:?}");
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
            let mut rest = b.iter();
            assert!(places.iter().all(|&place| rest.any(|word| *word == a[place])), "{a:?} {b:?} {places:?}");
        }
        // by hand: of two that are equally long the one nearer the reference's end
        assert_eq!(positions(b"abcbdab", b"bdcaba"), [1, 2, 3, 5]);
        assert_eq!(length(b"abcbdab", b"bdcaba"), 4);
    }
}
