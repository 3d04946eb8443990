//! The targets as tests: `fuzz::checks::<target>::<way>`.

use bolero::check;

use super::inputs::{changed, corpus, edges, spelled};

/// Inputs of each kind, unless `make fuzz` says for how long.
const INPUTS: usize = 4_000;

/// Makes of a target `fn(&[u8])` a test for each way of coming to an input.
macro_rules! targets {
    ($($target:ident: $vocabulary:expr),+ $(,)?) => {
        $(mod $target {
            use super::*;
            use crate::fuzz::$target::target;

            #[test]
            fn as_it_is() {
                // Replays the corpus of this name too.
                check!(name = stringify!($target)).with_iterations(INPUTS).for_each(target);
            }

            #[test]
            fn spelled_from_a_vocabulary() {
                check!(name = concat!(stringify!($target), "_spelled"))
                    .with_iterations(INPUTS)
                    .with_max_len(200)
                    .for_each(|bytes| target(&spelled($vocabulary, bytes)));
            }

            #[test]
            fn changed_in_places() {
                let kept = corpus(stringify!($target));
                assert!(!kept.is_empty(), "the corpus has moved");
                check!(name = concat!(stringify!($target), "_changed"))
                    .with_iterations(INPUTS)
                    .with_max_len(64)
                    .for_each(|bytes| target(&changed(&kept, bytes)));
            }

            #[test]
            fn at_the_edges() {
                for input in edges() {
                    target(&input);
                }
            }
        })+
    };
}

targets! {
    payload: super::super::inputs::JSON,
    decode: super::super::inputs::JSON,
    configuration: super::super::inputs::TOML,
    outcome: super::super::inputs::JSON,
}
