use super::super::*;
use crate::perf::{Fault, FaultKind, Hierarchy, Torus};

/// So many disks in DR-net's layout, and nodes without disk that take requests.
fn drnet(disks: u16, fabric: Fabric, diskless: u16) -> System {
    let text = "[workload]\narrivals = \"saturating\"\nrequests.fixed = { bytes = 65536, read_share = 1.0 }\n";
    let mut system: System = toml::from_str(text).unwrap();
    system.disks.model = "drnet".into();
    (system.nodes.workers, system.nodes.originators) = (disks, 0);
    (system.nodes.controllers, system.nodes.buffers) = (Some(diskless), Some(5));
    (system.links.fabric, system.links.mb_s) = (fabric, 100.0);
    system.volume.layout = Layout("drnet".into());
    (system.volume.unit, system.volume.width) = (65536, Some(25));
    system
}

fn refusal(system: &System) -> String {
    system.check().unwrap_err().to_string()
}

#[test]
fn cells_cover_the_torus_and_groups_are_pluses_and_neighbours_of_one_kind() {
    for disks in [25, 50, 100, 150, 500] {
        let system = drnet(disks, Fabric::Torus, 5);
        assert_eq!(system.check(), Ok(()));
        let cells = usize::from(disks) / 25;
        let mut on: Vec<u16> = (0..cells)
            .flat_map(|g| (0..25).map(move |c| (g, c)))
            .map(|(g, c)| system.disk_of(g, c, 25))
            .collect();
        let (w, h) = system.torus_sides();
        for plus in on.chunks(5) {
            let (x, y) = (plus[0] % w, plus[0] / w);
            assert_eq!((x + 2 * y) % 5, 0, "centres are a knight's move from each other");
            let around =
                [((x + 1) % w, y), (x, (y + 1) % h), (x, (y + h - 1) % h), ((x + w - 1) % w, y)];
            let around: Vec<u16> = around.iter().map(|(x, y)| y * w + x).collect();
            assert_eq!(plus[1..], around);
        }
        on.sort_unstable();
        assert!(on.iter().copied().eq(0..disks), "each disk is in one cell");
    }
}

#[test]
fn in_a_hierarchy_first_groups_are_across_buses_and_second_groups_on_one() {
    for (disks, per_bus, controllers) in [(100, 10, 2), (400, 40, 2), (400, 20, 2), (400, 10, 2)] {
        let mut system = drnet(disks, Fabric::Hierarchy, controllers);
        let disks_per_bus = per_bus;
        system.links.hierarchy = Some(Hierarchy { disks_per_bus, ..Hierarchy::default() });
        assert_eq!(system.check(), Ok(()));
        let mut on = Vec::new();
        for cell in 0..usize::from(disks) / 25 {
            let bus = |column| system.disk_of(cell, column, 25) / per_bus;
            let controller = |column| system.controller_of(system.disk_of(cell, column, 25));
            for column in 0..25 {
                assert_eq!(bus(column), bus(column % 5), "arms of one number are on one bus");
                assert_eq!(controller(column), controller(0));
                on.push(system.disk_of(cell, column, 25));
            }
            assert_eq!((0..5).map(bus).collect::<std::collections::BTreeSet<_>>().len(), 5);
        }
        on.sort_unstable();
        assert!(on.iter().copied().eq(0..disks));
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_would_do() {
    let mut system = drnet(60, Fabric::Torus, 5);
    system.volume.width = Some(30);
    assert_eq!(
        refusal(&system),
        "nodes.workers = 60: that is a torus of 10 by 6, and sides of one for drnet are multiples of 5"
    );
    let mut system = drnet(50, Fabric::Torus, 5);
    system.links.torus = Some(Torus { width: Some(20), ..Torus::default() });
    assert!(
        refusal(&system).starts_with("links.torus.width = 20: give a number that divides the 50")
    );
    system.links.torus = Some(Torus { width: Some(25), ..Torus::default() });
    assert!(refusal(&system).contains("a torus of 25 by 2, and sides are at least 3"));
    let mut system = drnet(25, Fabric::Torus, 51);
    assert!(refusal(&system).starts_with("nodes.controllers = 51: each is in a link"));
    system.nodes.controllers = None;
    system.nodes.buffers = None;
    assert!(
        refusal(&system).starts_with("workload.arrivals = saturating: requests would accumulate")
    );
    let mut system = drnet(50, Fabric::Hierarchy, 1);
    system.links.hierarchy = Some(Hierarchy { disks_per_bus: 7, ..Hierarchy::default() });
    assert!(
        refusal(&system)
            .starts_with("links.hierarchy.disks_per_bus = 7: give a number that divides")
    );
    let mut system = drnet(50, Fabric::Hierarchy, 2);
    assert!(
        refusal(&system)
            .starts_with("nodes.controllers = 2: give a number that divides the 5 back-end")
    );
    system.nodes.controllers = Some(5);
    assert!(
        refusal(&system).contains(
            "first groups across five buses of an intermediate bus, and there would be 1"
        )
    );
    let with = |intermediate_buses| {
        let mut system = drnet(100, Fabric::Hierarchy, 1);
        system.links.hierarchy = Some(Hierarchy { intermediate_buses, ..Hierarchy::default() });
        system
    };
    assert_eq!(with(2).check(), Ok(()));
    assert!(
        refusal(&with(3))
            .starts_with("links.hierarchy.intermediate_buses = 3: give a number that divides")
    );
    assert!(refusal(&with(5)).starts_with("links.hierarchy.intermediate_buses = 5: drnet has"));
    let mut system = drnet(50, Fabric::Switch, 1);
    system.links.torus = Some(Torus::default());
    assert!(refusal(&system).contains("give links.fabric = torus"));
}

#[test]
fn faults_of_links_are_of_links_that_are_there() {
    let with = |fabric, links: &[(FaultKind, [u16; 2])]| {
        let mut system = drnet(25, fabric, 5);
        let fault = |(n, (what, link)): (usize, &(FaultKind, [u16; 2]))| {
            Fault::of_link(n as f64, *what, *link)
        };
        system.faults = links.iter().enumerate().map(fault).collect();
        system
    };
    use FaultKind::{LinkDies, LinkReturns};
    // On a torus of 5 by 5, node 25 is in the middle of the link from 0 to 1.
    let torus = |links: &[(FaultKind, [u16; 2])]| refusal(&with(Fabric::Torus, links));
    assert_eq!(with(Fabric::Torus, &[(LinkDies, [0, 25]), (LinkReturns, [25, 0])]).check(), Ok(()));
    assert_eq!(
        torus(&[(LinkDies, [0, 1])]),
        "faults[0].link = [0, 1]: this link does not exist; node 0 has links to 25, 5, 4, 20"
    );
    assert_eq!(
        torus(&[(LinkDies, [0, 30])]),
        "faults[0].link = [0, 30]: give two of the 30 nodes, from 0"
    );
    assert!(torus(&[(LinkReturns, [0, 25])]).contains("it is up at 0 s"));
    let cut = torus(&[(LinkDies, [0, 25]), (LinkDies, [25, 1])]);
    assert!(cut.starts_with("faults[1].at_s = 1: nodes that are up would have no path"), "{cut}");
    assert!(
        refusal(&with(Fabric::Switch, &[(LinkDies, [0, 1])]))
            .contains("only a torus, or links between")
    );
    let mut both = with(Fabric::Torus, &[(LinkDies, [0, 25])]);
    both.faults[0].node = Some(1);
    assert!(
        refusal(&both).starts_with("faults[0].what = link-dies: it happens to a link; give link")
    );
}

#[test]
fn on_a_large_torus_interface_nodes_come_first_since_they_have_timestamps() {
    let large = drnet(5_000, Fabric::Torus, 1_000);
    assert_eq!(large.check(), Ok(()));
    assert_eq!((large.first_diskless(), large.first_disk()), (0, 1_000));
    assert_eq!(large.disk_of(0, 0, 25), 1_000);
    let small = drnet(500, Fabric::Torus, 100);
    assert_eq!((small.first_diskless(), small.first_disk()), (500, 0));
    let switched = drnet(5_000, Fabric::Switch, 1);
    assert!(
        refusal(&switched)
            .starts_with("nodes.workers = 5000: nodes without a disk are numbered after them")
    );
    let mut fails = large;
    fails.faults = vec![Fault::of_node(1.0, FaultKind::NodeDies, 3)];
    assert!(refusal(&fails).contains("all nodes of an array with faults need timestamps"));
}
