//! Requests one at a time, by vhost-user and by NBD in turn, and what they cost the process that serves both.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use weft_front::nbd::client::Client;

use super::Result;
use super::driver::{Driver, READ, WRITE};

/// Rounds, each with all measurements in turn.
const ROUNDS: usize = 9;

/// Processor time that a process has taken, from its `schedstat`s.
fn processor(pid: u32) -> Result<Duration> {
    let mut all = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        all += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(all))
}

/// One way to reach the volume.
enum Way {
    VhostUser(Driver),
    Nbd(Client<UnixStream>),
}

impl Way {
    fn request(&mut self, kind: u32, at: u64, data: &[u8]) -> Result<()> {
        match (self, kind) {
            (Way::VhostUser(driver), READ) => {
                let status = driver.ask(0, READ, at / 512, &[], data.len())?.status;
                assert_eq!(status, 0);
            }
            (Way::VhostUser(driver), _) => {
                assert_eq!(driver.ask(0, WRITE, at / 512, data, 0)?.status, 0);
            }
            (Way::Nbd(client), READ) => drop(client.read_at(at, data.len() as u32)?),
            (Way::Nbd(client), _) => client.write_at(at, data, false)?,
        }
        Ok(())
    }
}

/// Microseconds that a request takes, and of the serving process's processors and of this one's.
struct Cost {
    latency: f64,
    server: f64,
    client: f64,
}

fn measure(way: &mut Way, kind: u32, len: usize, count: u64, pid: u32) -> Result<Cost> {
    let data = vec![0x5a; len];
    let (server, client) = (processor(pid)?, processor(std::process::id())?);
    let mut times = Vec::new();
    for n in 0..count {
        let since = Instant::now();
        way.request(kind, n * 7919 * 4096 % (48 << 20) / 4096 * 4096, &data)?;
        times.push(since.elapsed());
    }
    times.sort_unstable();
    let each = |since: Duration, now: Duration| (now - since).as_secs_f64() * 1e6 / count as f64;
    Ok(Cost {
        latency: times[times.len() / 2].as_secs_f64() * 1e6,
        server: each(server, processor(pid)?),
        client: each(client, processor(std::process::id())?),
    })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Prints medians over the rounds, and ratios.
pub fn run(socket: &Path, nbd: &Path, volume: &str, pid: u32) -> Result<()> {
    let mut ways = [
        Way::Nbd(Client::connect(UnixStream::connect(nbd)?, volume)?),
        Way::VhostUser(Driver::connect(socket, 1)?),
    ];
    println!("us a request: median latency, processor time of the server, of the client");
    for (name, kind, len, count) in [
        ("read 4 KiB", READ, 4096, 2000),
        ("write 4 KiB", WRITE, 4096, 1000),
        ("read 1 MiB", READ, 1 << 20, 100),
        ("write 1 MiB", WRITE, 1 << 20, 60),
    ] {
        let mut all: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (way, costs) in ways.iter_mut().zip(&mut all) {
                costs.push(measure(way, kind, len, count, pid)?);
            }
        }
        let of = |n: usize, field: fn(&Cost) -> f64| median(all[n].iter().map(field).collect());
        let fields: [fn(&Cost) -> f64; 3] = [|c| c.latency, |c| c.server, |c| c.client];
        let [nbd, vhost] = [0, 1].map(|n| fields.map(|field| of(n, field)));
        let ratio = |n: usize| vhost[n] / nbd[n];
        println!(
            "{name}: NBD {nbd:.0?}, vhost-user {vhost:.0?}, ratios {:.2} {:.2} {:.2}",
            ratio(0),
            ratio(1),
            ratio(2)
        );
    }
    Ok(())
}
