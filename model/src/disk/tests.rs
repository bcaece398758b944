use super::*;
use crate::spec::builtin;

fn model(name: &str) -> Model {
    Model::new(&builtin(name).unwrap())
}

fn idle(model: &Model) -> Disk {
    Disk::new(model, Policy::Fcfs, 0, fastrand::Rng::with_seed(1))
}

/// One access on an otherwise idle disk.
fn alone(disk: &mut Disk, now: Nanos, access: Access) -> Completed {
    disk.submit(now, 7, access);
    let at = disk.next().unwrap();
    let mut done = Vec::new();
    disk.advance(at - 1, &mut done);
    assert_eq!(done, []);
    disk.advance(at, &mut done);
    assert_eq!((done.len(), done[0].id, done[0].at), (1, 7, at));
    assert_eq!(done[0].times.total(), at - now);
    done[0]
}

#[test]
fn the_first_read_is_made_of_its_parts() {
    let model = model("hp97560-tickertaip");
    let mut disk = idle(&model);
    // Cylinder 1, head 4 from cylinder 0, head 0: one seek of one cylinder.
    let times = alone(&mut disk, 0, Access::read(0, 8)).times;
    assert_eq!(times.overhead, 1_000_000);
    assert_eq!((times.seek, times.head_switch), (2_430_000, 0));
    // Its track is 4 tracks' skew of 8 sectors round; 3.43 ms is 16.47 sectors.
    let sector = model.revolution().unwrap() as f64 / 72.0;
    assert!((times.rotation as f64 - (32.0 * sector - 3.43e6)).abs() < 2.0);
    assert!((times.transfer as f64 - 8.0 * sector).abs() < 2.0);
    // 4 KiB at 5 MB/s, of which nothing is hidden.
    assert_eq!(times.bus, 819_200);
}
