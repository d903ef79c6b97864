use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{BOOT0_GK210, GIB};

const NOW: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

fn gk210() -> Die<SparseVram> {
    let kind = DieKind::gk210();
    let size = kind.bar1_size();
    let mut die = Die::new(kind, SparseVram::new(size));
    die.config_write(reg::COMMAND, &[2, 0]);
    die
}

fn read_u32(die: &mut Die<SparseVram>, bar: u8, offset: u64, now: Duration) -> u32 {
    let mut data = [0; 4];
    die.bar_read(bar, offset, &mut data, now).expect("in memory");
    u32::from_le_bytes(data)
}

fn bell(die: &mut Die<SparseVram>, register: u64, now: Duration) -> u32 {
    read_u32(die, 1, DOORBELL_OFFSET + register, now)
}

fn ring(die: &mut Die<SparseVram>, descriptor: u64, now: Duration) {
    let value = u32::try_from(descriptor / Job::ALIGN).expect("within 16 GiB");
    let at = DOORBELL_OFFSET + doorbell::RING;
    die.bar_write(1, at, &value.to_le_bytes(), now).expect("in memory");
}

fn hand_in(die: &mut Die<SparseVram>, descriptor: u64, job: &Job, now: Duration) {
    die.bar_write(1, descriptor, &job.to_bytes(), now).expect("in memory");
    ring(die, descriptor, now);
}

fn outcome(die: &Die<SparseVram>, descriptor: u64) -> Option<JobOutcome> {
    let mut data = [0; 8];
    die.vram().read(descriptor + Job::OUTCOME_AT, &mut data).expect("in memory");
    JobOutcome::from_bytes(data)
}

fn fill(destination: u64, count: u32, micros: u64) -> Job {
    let duration = Duration::from_micros(micros);
    Job { work: Work::Fill, destination, count, factor: 7, addend: 3, duration }
}

#[test]
fn bars_tell_their_size_when_asked() {
    let mut die = gk210();
    for (register, low, upper) in [
        (0x10, 0xff00_0000, None),
        (0x14, 0x0000_000c, Some(0xffff_fffc)),
        (0x1c, 0xfe00_000c, Some(0xffff_ffff)),
    ] {
        die.config_write(register, &[0xff; 4]);
        assert_eq!(die.config().u32(register), low, "{register:#x}");
        if let Some(upper) = upper {
            die.config_write(register + 4, &[0xff; 4]);
            assert_eq!(die.config().u32(register + 4), upper, "{register:#x}");
        }
    }
}

#[test]
fn bytes_words_and_dwords_write_the_same_register() {
    let mut die = gk210();
    die.config_write(0x18, &[0x0c]);
    die.config_write(0x19, &[0x34, 0x12]);
    assert_eq!(die.config().u32(0x18), 0x0012_340c);
    assert_eq!(die.bar_address(1), Some(0x0012_340c << 32));
    assert_eq!(die.decode(0x0012_340c_0000_1000), Some((1, 0x1000)));
}

#[test]
fn nothing_is_decoded_without_memory_decode_or_asleep() {
    let mut die = gk210();
    die.config_write(0x18, &[0x0c]);
    let slot = 0xC_0000_0000;
    assert_eq!(die.decode(slot + 16 * GIB - 1), Some((1, 16 * GIB - 1)));
    assert_eq!(die.decode(slot + 16 * GIB), None);
    die.config_write(reg::COMMAND, &[0, 0]);
    assert_eq!(die.decode(slot), None);
    die.config_write(reg::COMMAND, &[2, 0]);
    die.config_write(reg::PMCSR, &[3]);
    assert_eq!(die.decode(slot), None);
}

#[test]
fn sleep_hides_memory_and_keeps_everything() {
    let mut die = gk210();
    die.bar_write(1, 64, b"mark", NOW).expect("in memory");
    die.config_write(0x18, &[0x0c]);
    die.config_write(reg::PMCSR, &[1]);
    assert!(!die.asleep(), "there is no D1");
    die.config_write(reg::PMCSR, &[3]);
    assert_eq!(read_u32(&mut die, 1, 64, NOW), u32::MAX);
    assert_eq!(read_u32(&mut die, 0, 0, NOW), u32::MAX);
    die.bar_write(1, 64, b"lost", NOW).expect("dropped");
    die.config_write(reg::PMCSR, &[0]);
    assert_eq!(read_u32(&mut die, 1, 64, NOW).to_le_bytes(), *b"mark");
    assert_eq!(die.bar_address(1), Some(0xC_0000_0000));
}

#[test]
fn registers_answer_and_the_others_fault() {
    let mut die = gk210();
    assert_eq!(read_u32(&mut die, 0, 0, NOW), BOOT0_GK210);
    assert_eq!(read_u32(&mut die, 0, 0xa00, NOW), 0x0f2a_1000);
    assert_eq!(read_u32(&mut die, 0, 0x1a8, NOW), 1);
    assert_eq!(read_u32(&mut die, 0, 0x8_8000, NOW), 0x102d_10de);
    let partitions = read_u32(&mut die, 0, 0x2_2438, NOW);
    let sizes: Vec<u32> = (0..u64::from(partitions))
        .map(|i| read_u32(&mut die, 0, 0x11_020c + 0x1000 * i, NOW))
        .collect();
    assert_eq!(sizes, [2048; 6]);
    assert_eq!(crate::Reading::from_raw(read_u32(&mut die, 0, 0x4000, NOW)).value(), None);
    let mut halves = [0; 6];
    die.bar_read(0, 2, &mut halves, NOW).expect("in memory");
    assert_eq!(halves[..2], [0x22, 0x0f]);
}

#[test]
fn writes_to_bar0_change_nothing_and_are_told() {
    let mut die = gk210();
    die.bar_write(0, 0x200, &u32::MAX.to_le_bytes(), NOW).expect("recorded");
    die.bar_write(0, 0, &[0; 4], NOW).expect("recorded");
    let kinds: Vec<_> = die.take_bar0_writes().iter().map(|write| write.kind).collect();
    assert_eq!(kinds, [Bar0WriteKind::PmcEnable, Bar0WriteKind::Other]);
    assert_eq!(read_u32(&mut die, 0, 0, NOW), BOOT0_GK210);
    assert!(die.take_bar0_writes().is_empty());
}

#[test]
fn scratch_registers_keep_what_was_written() {
    let kind = DieKind::gk210().with_other_registers(OtherRegisters::Scratch);
    let mut die = Die::new(kind, SparseVram::new(16 * GIB));
    assert_eq!(read_u32(&mut die, 0, 0x4000, NOW), 0);
    die.bar_write(0, 0x4000, &7u32.to_le_bytes(), NOW).expect("kept");
    assert_eq!(read_u32(&mut die, 0, 0x4000, NOW), 7);
}

#[test]
fn a_job_runs_on_while_nobody_looks() {
    let mut die = gk210();
    let after = |micros| NOW + MICRO * micros;
    hand_in(&mut die, 0x100, &fill(0x1000, 3, 100), NOW);
    assert_eq!(bell(&mut die, doorbell::PENDING, after(99)), 1);
    assert_eq!(outcome(&die, 0x100), Some(JobOutcome::Pending));
    assert_eq!(die.poll(after(99)).expect("in memory"), Some(after(100)));
    assert_eq!(die.poll(after(100)).expect("in memory"), None);
    assert_eq!(outcome(&die, 0x100), Some(JobOutcome::Done { number: 1 }));
    let results: Vec<u32> =
        (0..4).map(|i| read_u32(&mut die, 1, 0x1000 + 4 * i, after(100))).collect();
    assert_eq!(results, [3, 10, 17, 0]);
}

#[test]
fn jobs_queue_and_each_takes_its_time() {
    let mut die = gk210();
    hand_in(&mut die, 0x100, &fill(0x1000, 40_000, 100), NOW);
    let work = Work::MultiplyAdd { source: 0x1000 };
    let second = Job { work, destination: 15 * GIB, ..fill(0, 40_000, 50) };
    hand_in(&mut die, 0x200, &second, NOW + MICRO * 10);
    assert_eq!(bell(&mut die, doorbell::PENDING, NOW + MICRO * 149), 1);
    assert_eq!(bell(&mut die, doorbell::FINISHED, NOW + MICRO * 150), 2);
    assert_eq!(outcome(&die, 0x200), Some(JobOutcome::Done { number: 2 }));
    let last = read_u32(&mut die, 1, 15 * GIB + 4 * 39_999, NOW + MICRO * 150);
    assert_eq!(last, (39_999 * 7 + 3) * 7 + 3);
}

#[test]
fn bad_rings_are_refused_and_say_so() {
    let mut die = gk210();
    ring(&mut die, 0x300, NOW);
    assert_eq!(bell(&mut die, doorbell::ERROR, NOW), EngineError::NoDescriptor as u32);
    let work = Work::MultiplyAdd { source: 0x1004 };
    for job in [
        fill(16 * GIB - 8, 3, 1),
        fill(DOORBELL_OFFSET - 4, 2, 1),
        fill(0x1002, 1, 1),
        fill(0x1000, 0, 1),
        fill(u64::MAX - 3, 1, 1),
        Job { work, ..fill(0x1000, 4, 1) },
    ] {
        hand_in(&mut die, 0x100, &job, NOW);
        assert_eq!(bell(&mut die, doorbell::ERROR, NOW), EngineError::BadRange as u32, "{job:?}");
        assert_eq!(outcome(&die, 0x100), Some(JobOutcome::Refused));
    }
    for _ in 0..65 {
        hand_in(&mut die, 0x100, &fill(0x1000, 1, 1_000_000), NOW);
    }
    assert_eq!(bell(&mut die, doorbell::ERROR, NOW), EngineError::Full as u32);
    assert_eq!(bell(&mut die, doorbell::TAKEN, NOW), 64);
}

#[test]
fn a_reset_loses_config_and_jobs() {
    let mut die = gk210();
    die.config_write(0x18, &[0x0c]);
    hand_in(&mut die, 0x100, &fill(0x1000, 3, 100), NOW);
    die.bus_reset();
    assert_eq!((die.bar_address(1), die.config().u16(reg::COMMAND)), (Some(0), 0));
    assert_eq!(die.poll(NOW + MICRO * 1000).expect("in memory"), None);
    assert_eq!(outcome(&die, 0x100), Some(JobOutcome::Pending));
}

#[test]
fn shutting_the_adapter_down_loses_what_contexts_had() {
    let mut die = gk210();
    die.config_write(0x18, &[0x0c]);
    die.bar_write(1, 64, b"mark", NOW).expect("in memory");
    hand_in(&mut die, 0x100, &fill(0x1000, 3, 100), NOW);
    die.shut_adapter_down(NOW).expect("in memory");
    assert_eq!(read_u32(&mut die, 1, 64, NOW + MICRO * 1000), 0);
    assert_eq!(bell(&mut die, doorbell::TAKEN, NOW), 0);
    assert_eq!(die.bar_address(1), Some(0xC_0000_0000));
}

#[test]
fn the_neighbour_is_of_another_kind() {
    let mut die = Die::new(DieKind::tu104(), SparseVram::new(256 << 20));
    assert_eq!(die.config().u32(0), 0x1eb8_10de);
    assert_eq!(read_u32(&mut die, 0, 0, NOW), 0x1640_00a1);
    die.bar_write(1, 128 << 20, b"text", NOW).expect("in memory");
    assert_eq!(read_u32(&mut die, 1, 128 << 20, NOW).to_le_bytes(), *b"text");
}

proptest! {
    #[test]
    fn whatever_is_rung_the_doorbell_stays_no_memory(
        words in prop::collection::vec(any::<u32>(), 16), at in 0u64..64, micros in 0u64..2000
    ) {
        let mut die = gk210();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        die.bar_write(1, at * 256, &bytes, NOW).expect("in memory");
        ring(&mut die, at * 256, NOW);
        die.poll(NOW + MICRO * u32::try_from(micros).expect("small")).expect("in memory");
        let mut page = [1; 4096];
        die.vram().read(DOORBELL_OFFSET, &mut page).expect("in memory");
        prop_assert_eq!(page, [0; 4096]);
    }
}
