//! Which functions are dies, and how they group into cards.

use std::collections::BTreeMap;

use super::{Card, CardId, Die, DieId, Function, Survey};
use crate::{Bdf, PciId};

impl Survey {
    /// A survey whose dies are the functions with one of `ids`, and whose cards are the dies behind
    /// one root port.
    ///
    /// A die on a root bus has no bridge above and is a card of its own, whose `root_port` is the
    /// die itself: nothing can open or shut a path to it, and the planner says so. Parents that
    /// are missing, or that go round in a circle, end the path and become an oddity.
    pub fn assemble(functions: BTreeMap<Bdf, Function>, ids: &[PciId]) -> Self {
        let mut survey = Self { functions, ..Self::default() };
        let found: Vec<Bdf> =
            survey.functions.values().filter(|f| ids.contains(&f.id)).map(|f| f.bdf).collect();
        for bdf in found {
            let path = survey.path_to(bdf);
            let root_port = path.first().copied().unwrap_or(bdf);
            let id = DieId(u16::try_from(survey.dies.len()).unwrap_or(u16::MAX));
            let card = survey.card_behind(root_port, id);
            survey.dies.push(Die { id, bdf, card, path });
        }
        survey
    }

    fn card_behind(&mut self, root_port: Bdf, die: DieId) -> CardId {
        if let Some(card) = self.cards.iter_mut().find(|card| card.root_port == root_port) {
            card.dies.push(die);
            return card.id;
        }
        let id = CardId(u16::try_from(self.cards.len()).unwrap_or(u16::MAX));
        self.cards.push(Card { id, root_port, dies: vec![die] });
        id
    }

    /// Bridges above `bdf`, root port first.
    fn path_to(&mut self, bdf: Bdf) -> Vec<Bdf> {
        let mut path = Vec::new();
        let mut parent = self.functions.get(&bdf).and_then(|function| function.parent);
        while let Some(at) = parent {
            let Some(function) = self.functions.get(&at) else {
                self.oddities.push(format!("{bdf}: the bridge {at} above it is missing"));
                break;
            };
            if at == bdf || path.contains(&at) {
                self.oddities.push(format!("{bdf}: the bridges above it go round in a circle"));
                break;
            }
            path.push(at);
            parent = function.parent;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PowerState, survey::testing};

    #[test]
    fn dies_behind_one_root_port_are_a_card() {
        let survey = testing::board(3, 2);
        assert_eq!(survey.dies.len(), 6);
        assert_eq!(survey.cards.len(), 3);
        assert!(survey.dies.iter().all(|die| die.path.len() == 3));
        assert!(survey.oddities.is_empty());
    }

    #[test]
    fn a_circle_and_a_missing_parent_are_oddities() {
        let mut functions = testing::board(1, 1).functions;
        let die = *functions.keys().next_back().expect("a die");
        for parent in [die, "7f:00.0".parse().expect("an address")] {
            functions.get_mut(&die).expect("a die").parent = Some(parent);
            let survey = Survey::assemble(functions.clone(), &[PciId::GK210]);
            assert_eq!(survey.oddities.len(), 1, "{:?}", survey.oddities);
            assert_eq!(survey.cards[0].root_port, die);
        }
        assert_eq!(functions[&die].power, PowerState::D0);
    }
}
