#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| slot_cmdline::fuzzing::grub_cfg(data));
