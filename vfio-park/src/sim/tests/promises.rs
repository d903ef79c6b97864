//! Whatever is asked in whatever order, and whatever goes wrong, some things hold.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What somebody might ask for.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Place,
    Open,
    Shut,
    Adopt,
    Park,
    Rescan,
}

fn any_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        1 => Just(Wish::Place),
        4 => Just(Wish::Open),
        1 => Just(Wish::Shut),
        3 => Just(Wish::Adopt),
        1 => Just(Wish::Park),
        1 => Just(Wish::Rescan),
    ]
}

/// A board, and who should be resident on it.
struct Game {
    board: Board,
    holds: BTreeMap<Bdf, Box<dyn Hold>>,
    warm: u32,
}

impl Game {
    /// What a verb answers is its own affair here; what the machine is afterwards is not.
    fn play(&mut self, wish: Wish, die: Bdf, slot: SlotId) {
        let sim = &self.board.sim;
        let before = sim.config_writes();
        match wish {
            Wish::Place => drop(self.board.place(die, slot)),
            Wish::Open => {
                if let Ok(opened) = sim.open(slot, die) {
                    let resident = |bdf: &Bdf| self.holds.contains_key(bdf);
                    let touched = sim.trace(before).iter().filter(|w| resident(&w.bdf)).count();
                    assert!(opened.config_writes <= 4, "{opened:?}");
                    assert_eq!(touched, 0, "a resident die was written");
                    self.warm += u32::from(resident(&die));
                }
            }
            Wish::Shut => drop(sim.shut(slot)),
            Wish::Adopt => self.adopt(die, slot),
            Wish::Park => {
                drop(self.holds.remove(&die));
                if sim.unbind(die).is_ok() {
                    drop(sim.bind(die, &DriverName::pci_stub()));
                }
            }
            Wish::Rescan => sim.rescan(),
        }
    }

    fn adopt(&mut self, die: Bdf, slot: SlotId) {
        let sim = &self.board.sim;
        if self.holds.contains_key(&die) || sim.open(slot, die).is_err() {
            return;
        }
        let bound = sim.unbind(die).and_then(|()| sim.bind(die, &DriverName::nvidia()));
        if let Ok(hold) = bound.and_then(|()| sim.hold(die)) {
            self.holds.insert(die, hold);
            for (end, at) in (0u32..).zip(self.board.ends(slot)) {
                self.board.write(at, mark(die, end));
            }
        }
    }

    /// One die at most in a slot, and it is the one that the survey names, with its marks.
    fn check(&self, slot: SlotId) {
        let board = &self.board;
        let survey = board.survey();
        let here = |die: &&crate::survey::Die| {
            DieState::read(&survey, die, board.sim.slots()).slot() == Some(slot)
        };
        let here: Vec<Bdf> = survey.dies.iter().filter(here).map(|die| die.bdf).collect();
        assert!(here.len() <= 1, "{here:?} are in {slot}");
        for (end, at) in (0u32..).zip(board.ends(slot)) {
            match here.first() {
                None => assert_eq!(board.read(at), u32::MAX),
                Some(die) if self.holds.contains_key(die) => {
                    assert_eq!(board.read(at), mark(*die, end));
                }
                Some(_) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_order_of_verbs_keeps_the_promises(
        preset in prop::sample::select(vec![
            "k80x4", "k80x6-win48", "k80x1", "k80x4-roomy-iommu", "k80x4-alone"
        ]),
        placed: bool,
        steps in prop::collection::vec((any_wish(), 0usize..8, 0u8..3, 1u32..40), 1..80)
    ) {
        let board = Board::new(preset);
        let slots = u8::try_from(board.sim.slots().len()).expect("a few");
        let mut game = Game { board, holds: BTreeMap::new(), warm: 0 };
        for n in (0..game.board.dies.len()).filter(|_| placed) {
            let slot = SlotId(u8::try_from(n / 2).expect("a few") % slots);
            game.board.place(game.board.dies[n], slot).expect("a parked card");
        }
        for (wish, n, slot, step) in steps {
            let faults = game.board.sim.faults();
            if step < 8 {
                let effect = Effect::FailStep { step, undo_fails: false };
                let any = Fault { verb: None, die: None, after: 0, times: Some(1), effect };
                faults.set(FaultPlan { off: false, faults: vec![any] });
            }
            let die = game.board.dies[n % game.board.dies.len()];
            if step == 39 {
                game.board.sim.fall_off(die);
            }
            game.play(wish, die, SlotId(slot % slots));
            game.board.sim.faults().set(FaultPlan::default());
            (0..slots).map(SlotId).for_each(|slot| game.check(slot));
        }
        game.board.no_violations();
    }
}
