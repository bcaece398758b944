//! What an array could carry at most, so that a workload that asks for more is refused.
//!
//! These are bounds and no predictions: disks that never move their arms, links that carry
//! nothing but data. A workload within them can still be too much.

use weft_load::Kind;
use weft_load::workload::{Addresses, Arrivals};
use weft_model::spec::{Device, Spec};

use super::system::{Fabric, Problem, System};

/// Bytes a second that no disk of this kind exceeds; infinite if nothing is known to bound it.
fn disk_bytes_s(spec: &Spec) -> f64 {
    match &spec.device {
        Device::Mechanical(disk) => {
            let track = disk.geometry.zones.iter().map(|z| z.sectors_per_track).max().unwrap_or(0);
            let bytes = f64::from(track) * f64::from(disk.geometry.sector_bytes);
            bytes * disk.mechanics.rpm / 60.0
        }
        Device::Fixed(fixed) => fixed.bytes_per_s as f64,
        Device::Flash(_) => match (spec.bus.read_bytes_per_s, spec.bus.write_bytes_per_s) {
            (0, _) | (_, 0) => f64::INFINITY,
            (read, write) => read.max(write) as f64,
        },
    }
}

/// Refuses open arrivals that ask for more bytes a second than the disks or the links carry.
pub(super) fn check(system: &System, spec: &Spec, redundancy: f64) -> Result<(), Problem> {
    let workload = &system.workload;
    // Hot spots may be in a disk's buffer, or at the originator.
    if matches!(workload.addresses, Addresses::Zipf { .. } | Addresses::Part { .. }) {
        return Ok(());
    }
    let Arrivals::Open { rate_per_s, .. } = workload.arrivals else { return Ok(()) };
    let classes = workload.requests.classes();
    // What a trace asks for changes from one time to the next.
    if classes.is_empty() {
        return Ok(());
    }
    let weights: f64 = classes.iter().map(|c| c.weight).sum();
    let asked = |kind: Kind| -> f64 {
        let of = classes.iter().filter(|c| c.kind == kind);
        of.map(|c| c.weight * c.bytes as f64).sum::<f64>() / weights * rate_per_s
    };
    let (reads, writes) = (asked(Kind::Read), asked(Kind::Write));
    let workers = f64::from(system.nodes.workers);
    let onto_disks = reads + writes * redundancy;
    let limits = [
        ("disks' buses", onto_disks, buses_bytes_s(system, spec)),
        ("disks", onto_disks, workers * disk_bytes_s(spec)),
        ("links", links_load(system, reads, writes), links_bytes_s(system)),
        (
            "hosts' links",
            system.hosts.links.map_or(0.0, |links| link_load(links.fabric, reads, writes)),
            host_links_bytes_s(system),
        ),
    ];
    for (what, asked, most) in limits {
        if asked > most {
            let (asked_mb, most_mb) = (asked / 1e6, most / 1e6);
            let rate = rate_per_s * most / asked;
            let expected = format!(
                "that is {asked_mb:.4} MB/s for the {what}, and they carry at most {most_mb:.4}; \
                 give less than {rate:.4}"
            );
            return Err(Problem::new("workload.arrivals.open.rate_per_s", rate_per_s, expected));
        }
    }
    Ok(())
}

/// Bytes a second that the buses that disks share carry; infinite if each has its own.
fn buses_bytes_s(system: &System, spec: &Spec) -> f64 {
    let devices = usize::from(system.disks.devices.unwrap_or(system.nodes.workers));
    let buses = system.disks.buses(devices);
    let fastest = spec.bus.read_bytes_per_s.max(spec.bus.write_bytes_per_s) as f64;
    let free = spec.bus.read_bytes_per_s == 0 || spec.bus.write_bytes_per_s == 0;
    if buses == 0 || free {
        return f64::INFINITY;
    }
    // All but the last piece of an access are whole; of pieces so long each costs set-up once.
    let piece = spec.bus.piece_bytes as f64;
    buses as f64 * piece / (piece / fastest + spec.bus.setup_ms / 1e3)
}

/// The share of data that has to cross a link: an originator may have its own disk's.
fn remote(system: &System) -> f64 {
    match system.nodes.originators {
        0 => 1.0,
        _ => 1.0 - 1.0 / f64::from(system.nodes.workers),
    }
}

/// Bytes a second that links between nodes have of that at least.
fn links_load(system: &System, reads: f64, writes: f64) -> f64 {
    let remote = remote(system);
    match system.hosts.at_switch {
        // Through the same port each way come what disks and what hosts send.
        true => (remote * reads + writes).max(remote * writes + reads),
        false => remote * link_load(system.links.fabric, reads, writes),
    }
}

/// The busier direction's bytes a second, or both on a bus.
fn link_load(fabric: Fabric, reads: f64, writes: f64) -> f64 {
    match fabric {
        Fabric::Bus => reads + writes,
        Fabric::PointToPoint | Fabric::Switch | Fabric::Torus => reads.max(writes),
        Fabric::Hierarchy => reads + writes,
    }
}

/// Bytes a second into all originators together, or out of them.
fn links_bytes_s(system: &System) -> f64 {
    let link = system.links.mb_s * 1e6;
    let workers = f64::from(system.nodes.workers);
    let (originators, peers) = match (system.nodes.roles, system.nodes.originators) {
        (roles, _) if roles.hosts_are_nodes() => (f64::from(system.workload.hosts), workers),
        (_, 0) => (system.nodes.diskless() as f64, workers),
        (_, _) => (full_originators(system), workers - 1.0),
    };
    match system.links.fabric {
        Fabric::Bus | Fabric::Hierarchy => link,
        Fabric::Switch => originators * link,
        // One has four links, or two in the middle of one.
        Fabric::Torus if system.nodes.originators == 0 => 2.0 * originators * link,
        Fabric::Torus => 4.0 * originators * link,
        Fabric::PointToPoint => originators * peers * link,
    }
}

/// With how many originators' worth of hosts the first originator is full: hosts take them in turn, and the
/// one with the most hosts is the first.
fn full_originators(system: &System) -> f64 {
    let (hosts, originators) = (system.workload.hosts, system.nodes.originators.max(1));
    f64::from(hosts) / f64::from(hosts.div_ceil(originators.into()))
}

/// Bytes a second from all hosts together, or to them; infinite if they have no links.
fn host_links_bytes_s(system: &System) -> f64 {
    let Some(links) = &system.hosts.links else { return f64::INFINITY };
    let link = links.mb_s * 1e6;
    match links.fabric {
        Fabric::Bus => link,
        Fabric::PointToPoint => f64::from(system.workload.hosts) * link,
        // An originator has never more hosts than there are.
        Fabric::Switch => full_originators(system) * link,
        Fabric::Torus | Fabric::Hierarchy => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let system: System = toml::from_str(text).unwrap();
        system.check().err().map(|p| p.to_string())
    }

    #[test]
    fn what_the_disks_cannot_carry_is_refused() {
        // 11 disks of 72 sectors of 512 bytes, 4002 times a minute: 27.05 MB/s.
        let at = |rate: f64| {
            problem(&format!(
                "links.mb_s = 1000\n[workload]\narrivals.open.rate_per_s = {rate:?}\n\
                 requests.fixed = {{ bytes = 1000000, read_share = 1.0 }}"
            ))
        };
        assert_eq!(at(27.0), None);
        assert_eq!(
            at(28.0).unwrap(),
            "workload.arrivals.open.rate_per_s = 28: that is 28.0000 MB/s for the disks, and they \
             carry at most 27.0471; give less than 27.0471"
        );
    }

    #[test]
    fn redundancy_counts_and_so_do_links() {
        let at = |rate: f64, read_share: f64, links: &str| {
            problem(&format!(
                "{links}\n[workload]\narrivals.open.rate_per_s = {rate:?}\n\
                 requests.fixed = {{ bytes = 1000000, read_share = {read_share:?} }}"
            ))
        };
        // A tenth more is written than asked: 24.588 MB/s is the most.
        assert_eq!(at(24.5, 0.0, "links.mb_s = 1000"), None);
        assert!(at(24.7, 0.0, "links.mb_s = 1000").unwrap().contains("the disks"));
        // One controller behind one port of 10 MB/s each way.
        let central = "nodes.originators = 0\nlinks = { fabric = \"switch\", mb_s = 10 }";
        assert_eq!(at(19.0, 0.5, central), None);
        assert!(at(21.0, 0.5, central).unwrap().contains("the links"));
        // One bus for both ways.
        let bus = "nodes.originators = 0\nlinks = { fabric = \"bus\", mb_s = 10 }";
        assert!(at(11.0, 0.5, bus).unwrap().contains("the links"));
    }

    #[test]
    fn hosts_links_count_where_there_are_any() {
        let at = |links: &str, rate: f64| {
            problem(&format!(
                "links.mb_s = 1000\nhosts.links = {{ mb_s = 1, fabric = \"{links}\" }}\n[workload]\n\
                 hosts = 5\narrivals.open.rate_per_s = {rate:?}\n\
                 requests.fixed = {{ bytes = 1000000, read_share = 0.75 }}"
            ))
        };
        // Three quarters go one way, but over a bus; of five hosts two ask the same one of four nodes.
        for (links, most) in [("bus", 1.0), ("point-to-point", 5.0 / 0.75), ("switch", 2.5 / 0.75)]
        {
            assert_eq!(at(links, most * 0.99), None, "{links}");
            let said = at(links, most * 1.01).unwrap();
            assert!(said.contains("the hosts' links, and they carry at most"), "{said}");
        }
    }

    #[test]
    fn hosts_that_share_an_originator_share_its_links() {
        let at = |hosts: u32, rate: f64| {
            problem(&format!(
                "links = {{ fabric = \"switch\", mb_s = 1 }}\n[workload]\nhosts = {hosts}\n\
                 arrivals.open.rate_per_s = {rate:?}\n\
                 requests.fixed = {{ bytes = 1000000, read_share = 1.0 }}"
            ))
        };
        // Ten elevenths come over the links; of five hosts two ask the same one of four originators.
        for (hosts, carried) in [(1, "1.0000"), (4, "4.0000"), (5, "2.5000")] {
            let most = carried.parse::<f64>().unwrap() * 1.1;
            assert_eq!(at(hosts, most * 0.99), None, "{hosts}");
            let said = at(hosts, most * 1.01).unwrap();
            assert!(said.contains(&format!("links, and they carry at most {carried}")), "{said}");
        }
    }
}
