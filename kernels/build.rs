//! Refuses machines that the driver shim has no code for, and writes the shim's list of functions.

use std::{env, fmt::Write as _, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=src/driver/symbols.txt");
    let target = |what| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("ARCH") != "x86_64" || target("OS") != "linux" {
        println!(
            "cargo::error=slot-kernels builds for x86_64 Linux only: its way into NVIDIA's driver is \
             written in that machine's code. Leave it out here: \
             cargo build --workspace --exclude slot-kernels"
        );
        return;
    }
    let list = fs::read_to_string("src/driver/symbols.txt").expect("the list is beside build.rs");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("jumps.rs");
    fs::write(out, jumps(&list)).expect("OUT_DIR is there to be written to");
}

/// One global function a name, which jumps to where its slot points, and the names in that order.
fn jumps(list: &str) -> String {
    let names = list.lines().filter(|l| !l.starts_with('#') && !l.contains(' '));
    let (mut code, mut table) = (String::new(), String::new());
    for (index, name) in names.enumerate() {
        let offset = index * 8;
        writeln!(
            code,
            ".globl {name}\n.hidden {name}\n.type {name},@function\n\
             {name}: jmp qword ptr [rip + die_check_jumps + {offset}]"
        )
        .expect("a String takes all");
        writeln!(table, "{name:?},").expect("a String takes all");
    }
    let count = table.lines().count();
    format!(
        "core::arch::global_asm!(r#\"\n\
         .pushsection .text.die_check,\"ax\",@progbits\n\
         .type die_check_none,@function\n\
         die_check_none: mov eax, 34\nret\n\
         {code}\
         .popsection\n\
         .pushsection .data.die_check,\"aw\",@progbits\n\
         .balign 8\n.globl die_check_jumps\n.hidden die_check_jumps\n\
         die_check_jumps:\n.rept {count}\n.quad die_check_none\n.endr\n\
         .popsection\n\"#);\n\
         const JUMPS: [&str; {count}] = [{table}];\n"
    )
}
