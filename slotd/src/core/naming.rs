//! Labels of dies: configured ones, else card letter and number on the card (`A0`, `A1`, `B0`...).

use std::collections::{HashMap, HashSet};

use vfio_park::{Bdf, Survey};

/// A label for each die of the survey, in its order. A configured label that could be taken for a
/// number, an address or `any`, or that another die has, is passed over.
pub(super) fn labels(survey: &Survey, configured: &HashMap<Bdf, String>) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(survey.dies.len());
    for die in &survey.dies {
        let wanted = configured.get(&die.bdf).filter(|name| is_label(name));
        let card = survey.cards.iter().find(|card| card.id == die.card);
        let position = card.and_then(|card| card.dies.iter().position(|id| *id == die.id));
        let usual = format!("{}{}", letters(die.card.0), position.unwrap_or(0));
        let name = wanted.filter(|name| !taken.contains(*name)).cloned().unwrap_or(usual);
        let name = if taken.contains(&name) { format!("die-{}", die.id.0) } else { name };
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

/// Whether a text can be the label of a die.
pub fn is_label(text: &str) -> bool {
    let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    starts && text.len() <= 32 && text.bytes().all(plain) && text != "any" && text != "next"
}

/// `A` to `Z`, then `AA` and on.
fn letters(number: u16) -> String {
    let letter = char::from(b'A' + u8::try_from(number % 26).unwrap_or(0));
    match number / 26 {
        0 => letter.to_string(),
        more => format!("{}{letter}", letters(more - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!([0, 25, 26, 27, 52, 701, 702].map(letters).join(" "), "A Z AA AB BA ZZ AAA");
    }

    #[test]
    fn a_label_is_nothing_else() {
        assert!(is_label("riser-3.b"));
        for text in ["", "7", "any", "next", "03:00.0", "a b", "ä", "-a"] {
            assert!(!is_label(text), "{text}");
        }
    }
}
