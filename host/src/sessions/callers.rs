//! Who is connected: how many hosts at each address that is listened at, how many from each machine, and how many that
//! have yet to log in.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use crate::limits::Limits;

/// Most connections at once whose hosts have yet to log in.
const MOST_NEW: usize = 64;
/// How long a host has for its login while others wait for its place: logins take milliseconds.
const HAS: Duration = Duration::from_secs(1);

/// Whether there is a place for another connection whose host has yet to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// There is.
    Free,
    /// This connection ends for it.
    Of(usize),
    /// There may be soon.
    Later,
}

/// The connections of hosts.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    at: BTreeMap<usize, usize>,
    from: BTreeMap<IpAddr, usize>,
    /// Of each connection: the listener, the machine if it is not this one, and when it came.
    who: HashMap<usize, (usize, Option<IpAddr>, Instant)>,
}

impl Callers {
    /// Counts a connection in, or says why there is no place for it.
    pub(crate) fn enter(
        &mut self,
        conn: usize,
        listener: usize,
        address: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<(), String> {
        let machine = address.map(machine);
        let here = self.at.get(&listener).copied().unwrap_or(0);
        if here >= limits.connections {
            return Err(format!(
                "there are {here} connections at this address, and no more are accepted"
            ));
        }
        let from = machine.and_then(|m| self.from.get(&m)).copied().unwrap_or(0);
        if from >= limits.connections_per_address {
            return Err(format!(
                "there are {from} connections from this machine, and no more are accepted"
            ));
        }
        *self.at.entry(listener).or_default() += 1;
        if let Some(machine) = machine {
            *self.from.entry(machine).or_default() += 1;
        }
        self.who.insert(conn, (listener, machine, Instant::now()));
        Ok(())
    }

    /// Finds a place for another connection. `new` are those whose hosts have yet to log in. If they are too many, the
    /// machine with most of them loses the one that came first, unless that has come just now.
    pub(crate) fn place(&self, new: &[usize], now: Instant) -> Place {
        let mut of_machine: BTreeMap<Option<IpAddr>, Vec<(Instant, usize)>> = BTreeMap::new();
        for conn in new {
            if let Some((_, machine, came)) = self.who.get(conn) {
                of_machine.entry(*machine).or_default().push((*came, *conn));
            }
        }
        if of_machine.values().map(Vec::len).sum::<usize>() < MOST_NEW {
            return Place::Free;
        }
        let most = of_machine.into_values().max_by_key(Vec::len);
        match most.and_then(|conns| conns.into_iter().min()) {
            Some((came, conn)) if now.saturating_duration_since(came) >= HAS => Place::Of(conn),
            _ => Place::Later,
        }
    }

    /// A connection is over.
    pub(crate) fn leave(&mut self, conn: usize) {
        let Some((listener, machine, _)) = self.who.remove(&conn) else { return };
        take_one(&mut self.at, &listener);
        if let Some(machine) = machine {
            take_one(&mut self.from, &machine);
        }
    }
}

fn take_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What stands for a machine: an address, or the network of an IPv6 address, of which a machine may
/// have as many as it likes.
fn machine(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_with_most_hosts_that_do_not_log_in_gives_way() {
        let (limits, mut callers) = (Limits::default(), Callers::default());
        let ip = |n: usize| Some(IpAddr::from([10, 0, 0, n as u8]));
        let mut new = Vec::new();
        // One of every third machine, and of all others the same.
        for conn in 0..MOST_NEW {
            assert_eq!(callers.place(&new, Instant::now()), Place::Free);
            let from = if conn % 3 == 0 { ip(conn) } else { ip(200) };
            assert_eq!(callers.enter(conn, 1, from, &limits), Ok(()));
            new.push(conn);
        }
        let now = Instant::now();
        assert_eq!(callers.place(&new, now), Place::Later, "they have come just now");
        let later = now + HAS;
        assert_eq!(callers.place(&new, later), Place::Of(1), "the first of that machine");
        // One that has logged in, or has gone, takes no place.
        assert_eq!(callers.place(&new[1..], later), Place::Free);
        callers.leave(2);
        assert_eq!(callers.place(&new, later), Place::Free);
        // Nor do those that came in elsewhere.
        let others: Vec<usize> = (1000..1100).collect();
        assert_eq!(callers.place(&others, later), Place::Free);
    }

    #[test]
    fn connections_are_bounded_at_a_listener_and_from_a_machine() {
        let limits = Limits { connections: 3, connections_per_address: 2, ..Limits::default() };
        let ip = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let mut callers = Callers::default();
        let mut enter =
            |conn, listener, address| callers.enter(conn, listener, address, &limits).err();
        assert_eq!((enter(1, 1, None), enter(2, 1, None)), (None, None));
        assert_eq!(enter(3, 1, None), None, "in this machine there is no bound but the listener's");
        assert!(enter(4, 1, None).unwrap().contains("3 connections"));
        assert_eq!((enter(5, 2, ip("10.0.0.1")), enter(6, 2, ip("::ffff:10.0.0.1"))), (None, None));
        assert!(enter(7, 2, ip("10.0.0.1")).unwrap().contains("this machine"));
        assert!(enter(7, 3, ip("10.0.0.1")).is_some(), "nor at another listener");
        assert_eq!(enter(8, 2, ip("10.0.0.2")), None);
        assert!(enter(9, 2, ip("10.0.0.3")).is_some());
        assert_eq!(
            (enter(10, 3, ip("2001:db8::1")), enter(11, 3, ip("2001:db8::2"))),
            (None, None)
        );
        assert!(enter(12, 3, ip("2001:db8::3")).is_some(), "one machine has the whole network");
        callers.leave(5);
        callers.leave(7);
        assert_eq!(callers.enter(13, 2, ip("10.0.0.1"), &limits), Ok(()));
        for conn in 1..=13 {
            callers.leave(conn);
        }
        assert!(callers.at.is_empty() && callers.from.is_empty() && callers.who.is_empty());
    }
}
