//! What the daemon costs, as ratios within one run: all parts are measured in turn, round after
//! round, so that whatever else the machine does meets them alike.
//!
//! - `acquire_release_vs_echo`: acquire and release of the die that is in the slot, against two round
//!   trips to a bare epoll echo server with messages of the same size;
//! - `handoffs_N`: hand-offs a second of one slot among N clients that hold it for no time, and what
//!   sixteen clients cost against two.

mod contended;
mod echo;

use std::{fs, path::Path, time::Instant};

use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use serde::Serialize;
use slotd::{
    daemon::{Daemon, Setup},
    service::Listener,
};
use slotd_client::{Client, api};
use tempfile::TempDir;
use vfio_park::sim::{Preset, Simulator};

/// Rounds, of which the middle one counts.
const ROUNDS: usize = 9;
/// Measured calls a round.
const CALLS: u32 = 2000;

/// What is written to `target/bench.json`.
#[derive(Debug, Serialize)]
struct Bench {
    /// Acquire and release, over two echo round trips.
    acquire_release_vs_echo: f64,
    /// Two echo round trips, in microseconds.
    two_echoes_us: f64,
    /// Acquire and release, in microseconds.
    acquire_release_us: f64,
    /// Hand-offs a second among two clients.
    handoffs_2: f64,
    /// Hand-offs a second among sixteen clients.
    handoffs_16: f64,
    /// Hand-offs among sixteen, over hand-offs among two.
    handoffs_16_vs_2: f64,
}

fn main() -> Result<()> {
    let folder = TempDir::new().context("make a folder for sockets")?;
    let (slotd, echo) = (folder.path().join("slotd.sock"), folder.path().join("echo.sock"));
    let machine = Simulator::new("k80x2".parse::<Preset>()?);
    let daemon = Daemon::start(Setup::simulated(&machine, "bench"), Listener::bind(&slotd)?)?;
    let server = echo::Server::start(&echo)?;
    let bench = measure(&slotd, &echo)?;
    server.stop()?;
    daemon.stop()?;
    print(&bench);
    fs::create_dir_all("target").context("make target/")?;
    let text = serde_json::to_string_pretty(&bench)?;
    fs::write("target/bench.json", text + "\n").context("write target/bench.json")
}

fn measure(slotd: &Path, echo: &Path) -> Result<Bench> {
    let mut client = Client::connect_to(slotd)?;
    let mut echo = echo::Client::connect(echo)?;
    // The first acquire is cold; those that are measured find the die in the slot.
    pair(&mut client)?;
    let (mut pairs, mut echoes) = (Vec::new(), Vec::new());
    let (mut twos, mut sixteens) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..CALLS {
            echo.round_trip()?;
            echo.round_trip()?;
        }
        echoes.push(start.elapsed().as_secs_f64() / f64::from(CALLS));
        let start = Instant::now();
        for _ in 0..CALLS {
            pair(&mut client)?;
        }
        pairs.push(start.elapsed().as_secs_f64() / f64::from(CALLS));
        twos.push(contended::handoffs(slotd, 2)?);
        sixteens.push(contended::handoffs(slotd, 16)?);
    }
    let (pair, two_echoes) = (middle(pairs), middle(echoes));
    let (handoffs_2, handoffs_16) = (middle(twos), middle(sixteens));
    Ok(Bench {
        acquire_release_vs_echo: pair / two_echoes,
        two_echoes_us: two_echoes * 1e6,
        acquire_release_us: pair * 1e6,
        handoffs_2,
        handoffs_16,
        handoffs_16_vs_2: handoffs_16 / handoffs_2,
    })
}

fn pair(client: &mut Client) -> Result<()> {
    client.call(&api::Acquire::die("0"))?;
    client.call(&api::Release::default())?;
    Ok(())
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print(bench: &Bench) {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["WHAT", "VALUE"]);
    let mut row = |what: &str, value: String| {
        table.add_row([what.to_owned(), value]);
    };
    row("two echo round trips", format!("{:.1} us", bench.two_echoes_us));
    row("acquire + release, die in the slot", format!("{:.1} us", bench.acquire_release_us));
    row("  against the echoes", format!("{:.2} x", bench.acquire_release_vs_echo));
    row("hand-offs among 2 clients", format!("{:.0} /s", bench.handoffs_2));
    row("hand-offs among 16 clients", format!("{:.0} /s", bench.handoffs_16));
    row("  against 2 clients", format!("{:.2} x", bench.handoffs_16_vs_2));
    println!("{}", table.trim_fmt());
}
