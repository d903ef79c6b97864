//! The passes of a memory test.

use crate::wire::{Pattern, Shape, Step};

/// One pattern's writes and reads.
pub(crate) struct Pass {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// All patterns, `times` over, each time with other words.
pub(crate) fn passes(times: u32) -> Vec<Pass> {
    (0..times).flat_map(round).collect()
}

fn round(time: u32) -> [Pass; 4] {
    let pass = |name: &str, steps| Pass { name: name.to_owned(), steps };
    // Neighbouring bits differ, then neighbouring pairs, then nibbles.
    let stripes = [0x5555_5555, 0x3333_3333, 0x0f0f_0f0f][time as usize % 3];
    // Odd and far apart from each other for any number of rounds.
    let seed = 0x9e37_79b1_u32.wrapping_mul(2 * time + 1);
    let pattern = |shape, word| Pattern { shape, word };
    let written = |pattern| [Step::Fill(pattern), Step::Check(pattern)];
    [
        // Cells that are stuck.
        pass(
            "solid",
            [0, u32::MAX]
                .into_iter()
                .flat_map(|word| written(pattern(Shape::Solid, word)))
                .collect(),
        ),
        // Address lines: two places that are one cell cannot hold two places' numbers.
        pass(
            "address",
            [0, u32::MAX]
                .into_iter()
                .flat_map(|word| written(pattern(Shape::Address, word)))
                .collect(),
        ),
        // Whatever depends on the neighbours' values in no simple way.
        pass("random", written(pattern(Shape::Random, seed)).to_vec()),
        // Cells that do not turn over, or turn their neighbours over.
        pass(
            "moving inversions",
            vec![
                Step::Fill(pattern(Shape::Solid, stripes)),
                Step::Invert(stripes),
                Step::Invert(!stripes),
                Step::Check(pattern(Shape::Solid, stripes)),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the memory holds after a step, `None` before any.
    fn after(step: Step, held: Option<Pattern>) -> Option<Pattern> {
        match step {
            Step::Fill(pattern) => Some(pattern),
            Step::Check(pattern) => {
                assert_eq!(held, Some(pattern), "checks what is there");
                held
            }
            Step::Invert(word) => {
                assert_eq!(
                    held,
                    Some(Pattern { shape: Shape::Solid, word }),
                    "inverts what is there"
                );
                Some(Pattern { shape: Shape::Solid, word: !word })
            }
        }
    }

    #[test]
    fn every_pass_reads_what_it_wrote_and_ends_with_a_check() {
        for pass in passes(5) {
            pass.steps.iter().fold(None, |held, &step| after(step, held));
            assert!(matches!(pass.steps.last(), Some(Step::Check(_))), "{}", pass.name);
        }
    }

    #[test]
    fn each_time_has_other_words() {
        let random = |time| round(time)[2].steps.clone();
        assert_ne!(random(0), random(1));
    }
}
