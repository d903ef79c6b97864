//! The planner and the machine agree.

use super::*;
use crate::planner::{Request, Residence, plan};

fn planned(board: &Board) -> crate::planner::Plan {
    let request = Request { slots: board.sim.slots().to_vec(), gate: Gate::Window };
    plan(&board.survey(), &request)
}

#[test]
fn what_is_planned_can_be_carried_out() {
    for preset in ["k80x16", "k80x16-win48", "k80x6-roomy-iommu", "k80x1", "k80x2-alone"] {
        let board = Board::new(preset);
        let before = planned(&board);
        assert_eq!(before.resident(), board.dies.len(), "{preset}: {before:#?}");
        let mut holds = Vec::new();
        for die in &before.dies {
            let home = die.home.expect("a slot");
            board.place(die.bdf, home).unwrap_or_else(|e| panic!("{preset}, {}: {e}", die.bdf));
        }
        for die in &before.dies {
            let home = die.home.expect("a slot");
            board.sim.open(home, die.bdf).expect("opened");
            board.sim.unbind(die.bdf).expect("free");
            board.sim.bind(die.bdf, &DriverName::nvidia()).expect("bound");
            holds.push(board.sim.hold(die.bdf).expect("initialised"));
        }
        let after = planned(&board);
        let homes = |plan: &crate::planner::Plan| {
            plan.dies.iter().map(|die| (die.bdf, die.home)).collect::<Vec<_>>()
        };
        assert_eq!(homes(&after), homes(&before), "{preset}");
        assert!(after.cards.iter().all(|card| card.stays), "{preset}");
        assert!(after.slots.iter().all(|slot| slot.obstacles.is_empty()), "{preset}");
        board.no_violations();
    }
}

#[test]
fn the_office_pc_needs_no_turns() {
    assert!(planned(&Board::new("k80x1")).without_turns());
    assert!(!planned(&Board::new("k80x2")).without_turns());
}

#[test]
fn where_32_bit_space_ends_both_say_so() {
    let board = Board::new("k80x56");
    let plan = planned(&board);
    let exclusive =
        |die: &&crate::planner::DiePlan| matches!(die.residence, Residence::Exclusive { .. });
    assert!(plan.dies.iter().any(|die| exclusive(&die)));
    let placed = board.dies.iter().map(|die| board.place(*die, SLOT));
    let refused: Vec<String> = placed.filter_map(Result::err).map(|e| reason(&e)).collect();
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|why| why.contains("32-bit")), "{refused:?}");
    board.no_violations();
}
