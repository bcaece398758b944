//! How this process reaches the others.

use weft_net::transport::{Over, Reach, Reached};

use crate::cluster::Together;
use crate::status::{Detour, LinkStatus};

/// How this process reaches the others.
pub(super) fn links(together: &Together) -> Vec<LinkStatus> {
    let over = |by: Reached| match by {
        Reached::Direct(Over::Unix) => "unix",
        Reached::Direct(Over::Tls) => "tls",
        Reached::Direct(Over::Tcp) => "tcp",
        Reached::Through(_) => "relayed",
    };
    let link = |reach: Reach| LinkStatus { to: reach.peer.0, over: over(reach.by).to_string() };
    together.reach().into_iter().map(link).collect()
}

/// Whom this process reaches not as it should, or through others.
pub(super) fn detours(together: &Together) -> Vec<Detour> {
    let from = together.us().0;
    let detour = |reach: Reach| {
        let through = match reach.by {
            Reached::Direct(_) => Vec::new(),
            Reached::Through(relays) => relays.iter().map(|r| r.0).collect(),
        };
        let notable = reach.is_bad || !through.is_empty();
        notable.then_some(Detour { from, to: reach.peer.0, through, bad: reach.is_bad })
    };
    together.reach().into_iter().filter_map(detour).collect()
}
