//! Runs seeds of the simulation check: `seed FROM TO`; with a number of lines as the third
//! word, a seed that fails is made smaller and its story told. With `members` the nodes are in
//! processes that rule together in every run, and with the name of a deliberate bug of the members
//! (such as `NoLeaseWait`) they have it; with `attached` some hosts are their own controllers in all runs
//! with processes, and with `unattached` in none; with `late` or `limited` writes are decided so; with
//! `central` or `controller` a controller coordinates in all runs, and with `uncontrolled` in none; with `fixed` nobody
//! changes what the volume chooses; with `gives-up` nodes that are down for long are given up by themselves in all
//! runs, and with `waits` in none; with `deferred` parity may wait in all runs, and with `drawn` in as many as the
//! command draws; with `steady` hosts are never silent all together; with `layout=NAME` all volumes have it, and
//! with `ordering=NAME` all are ordered so; with `undivided` there is one lock server; with `unslotted` disks have
//! no slots; with `uncolumned` no column calculates for others; with `reserved` hosts reserve the volume in all
//! runs that can have it (more with `unplaced`), and with `unreserved` in none; with `mds` no volume has local
//! parity; with `unranged` no range of the volume chooses for itself; with `lasting` no node leaves again just when
//! it has what it missed; with `copied` small writes are copied in all runs, and with `uncopied` in none; with
//! `once` the story is told of the run as it is.
use weft_core::cluster::AuthorityBug;
use weft_core::node::Bug as NodeBug;
use weft_core::policy::{Commit, Roles};
use weft_core::store::StoreBug;
use weft_member::Bug;
use weft_sim::check::{Latest, Options, run_once, run_seed};

fn main() {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| all.iter().any(|w| w == word);
    let members = match (has("members"), has("alone")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let bugs = [
        Bug::ActBeforePersisted,
        Bug::NoLeaseWait,
        Bug::ServesWithoutLease,
        Bug::EntersUncommitted,
        Bug::ForgetsPromises,
        Bug::ComesBackAsItWas,
        Bug::NeedsHosts,
        Bug::BelievesAnyLog,
        Bug::LeaseFromLastStamp,
        Bug::ObeysForEarlierLife,
        Bug::Authority(AuthorityBug::ByNumber),
        Bug::Authority(AuthorityBug::TwoAtOnce),
    ];
    let member_bug = bugs.into_iter().find(|bug| has(&format!("{bug:?}")));
    let node_bugs = [
        NodeBug::Store(StoreBug::MissingFlush),
        NodeBug::Store(StoreBug::MiscountedWrap),
        NodeBug::Store(StoreBug::RoomTooSoon),
        NodeBug::Store(StoreBug::OneSuperblock),
        NodeBug::Store(StoreBug::PreparedEarly),
        NodeBug::Store(StoreBug::ContentUnchecked),
        NodeBug::Store(StoreBug::SlotTooSoon),
        NodeBug::Store(StoreBug::SlotWhileRead),
        NodeBug::Store(StoreBug::VersionDropped),
        NodeBug::Store(StoreBug::LostForHoles),
        NodeBug::Store(StoreBug::NoReserve),
        NodeBug::Store(StoreBug::UsedWhileDiscarded),
        NodeBug::Store(StoreBug::DropsCopiesEarly),
        NodeBug::Store(StoreBug::ForgetsOvertaken),
        NodeBug::Store(StoreBug::CarriesNothing),
        NodeBug::OldestPrepared,
        NodeBug::HedgeMixesTimes,
        NodeBug::LateCompletion,
        NodeBug::NoFencing,
        NodeBug::ChildTwice,
        NodeBug::UnsafeAborts,
        NodeBug::OnUndecidedContent,
        NodeBug::SilentAborts,
        NodeBug::OverUndecidedWrite,
        NodeBug::ShownWhileAway,
        NodeBug::PutBackWithAll,
        NodeBug::ShowsBesideCopies,
        NodeBug::FoldsTooEarly,
        NodeBug::FoldsWhatIsGone,
        NodeBug::CellsSeeCopies,
        NodeBug::LeavesCopies,
        NodeBug::KeepsMissedCopies,
        NodeBug::LoneSurvivor,
        NodeBug::CommitsMarks,
        NodeBug::ReliesOnGoneMarks,
        NodeBug::SuspectWaits,
        NodeBug::BeyondBounds,
        NodeBug::RepeatsBlindly,
        NodeBug::IgnoresReservations,
        NodeBug::WorksForTheGone,
        NodeBug::OutlivesLocks,
        NodeBug::WritesLater,
        NodeBug::KeyUnchecked,
        NodeBug::MissingPiece,
        NodeBug::ForgetsALoss,
        NodeBug::Authority(AuthorityBug::ByNumber),
        NodeBug::Authority(AuthorityBug::TwoAtOnce),
        NodeBug::Authority(AuthorityBug::SizeForgetsFilling),
    ];
    let bug = node_bugs.into_iter().find(|bug| has(&format!("{bug:?}")));
    let rare = match (has("rare"), has("usual")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let attached = match (has("attached"), has("unattached")) {
        (true, _) => Some(2),
        (_, true) => Some(0),
        _ => None,
    };
    let commits = [("late", Commit::Late), ("limited", Commit::Limited)];
    let commit = commits.into_iter().find(|(word, _)| has(word)).map(|(_, commit)| commit);
    let roles = [("central", Roles::Central), ("controller", Roles::Controller)];
    let found = roles.into_iter().find(|(word, _)| has(word)).map(|(_, roles)| Some(roles));
    let controller = found.or(has("uncontrolled").then_some(None));
    let lulls = !has("steady");
    let deferral = (!has("drawn")).then_some(has("deferred"));
    let choices = !has("fixed");
    let gives_up = match (has("gives-up"), has("waits")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let reserves = match (has("reserved"), has("unreserved")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let copies = match (has("copied"), has("uncopied")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let layout = all.iter().find_map(|word| word.strip_prefix("layout="));
    let layout = layout.map(|name| name.parse().expect("the name of a layout"));
    let ordering = all.iter().find_map(|word| word.strip_prefix("ordering="));
    let ordering = ordering.map(|name| name.parse().expect("the name of an ordering"));
    let options = Options {
        members,
        bug,
        member_bug,
        attached,
        commit,
        controller,
        lulls,
        rare,
        choices,
        gives_up,
        reserves,
        places: !has("unplaced"),
        deferral,
        layout,
        ordering,
        copies,
        divides_locks: !has("undivided"),
        slots: !has("unslotted"),
        thin: !has("thick"),
        columns: !has("uncolumned"),
        local: !has("mds"),
        ranges: !has("unranged"),
        moves_when_sized: !has("unmoved"),
        latest: if has("lasting") { Latest::HangsAnywhere } else { Latest::ShortLeases },
        ..Options::default()
    };
    let words: Vec<u64> = all.iter().filter_map(|s| s.parse().ok()).collect();
    let [from, to, ref lines @ ..] = words[..] else {
        panic!("seed FROM TO [LINES] [members] [once]")
    };
    let (mut failed, mut unknown) = (0, 0);
    for seed in from..to {
        let reason = match run_once(seed, options, 0) {
            Ok(summary) => {
                unknown += summary.again.1;
                continue;
            }
            Err((reason, _)) => reason,
        };
        failed += 1;
        println!("{seed} failed: {reason}");
        let Some(lines) = lines.first().map(|n| *n as usize) else { continue };
        let story = match has("once") {
            true => run_once(seed, options, lines).err().map(|(_, story)| story),
            false => run_seed(seed, options).err().map(|failure| {
                println!("{} {:?}", failure.reason, failure.shrunk);
                failure.story
            }),
        };
        let story = story.unwrap_or_default();
        story[story.len().saturating_sub(lines)..].iter().for_each(|line| {
            println!("{}", line.chars().take(6000).collect::<String>());
        });
    }
    println!("{failed} of {} failed; {unknown} requests whose outcome stayed unknown", to - from);
}
