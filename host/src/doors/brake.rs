//! Delays proofs after wrong ones, by address and by claimed name.
//!
//! Guesses at one address do not lock a host out at another: an address without many wrong proofs of its own waits for others
//! like it alone, one second each. So guesses from many addresses at once are slow, too.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Wrong proofs without delay.
const FREE: u32 = 3;

/// After this time without a wrong proof, the count begins again.
const MEMORY: Duration = Duration::from_secs(60);

/// The first delay, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The most addresses that are remembered, and the most names of each kind.
const MOST: usize = 1024;

/// The key of an address. In IPv6 it is the 64-bit network, since one machine may have all its addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Wrong proofs by address and by name.
#[derive(Default)]
pub(crate) struct Brake {
    addresses: Table<IpAddr>,
    /// Names of hosts.
    names: Table<String>,
    /// Names that no host has. They do not evict names of hosts.
    others: Table<String>,
    /// Names at an address: a right proof of another name there does not make them forgotten.
    pairs: Table<(IpAddr, String)>,
    /// Names, with the addresses where they were proved: guesses from other addresses do not delay those.
    proved: HashMap<(IpAddr, String), Instant>,
}

/// Wrong proofs of the same address or name.
#[derive(Clone, Copy)]
struct Wrong {
    count: u32,
    last: Instant,
    /// The time from which on the next proof is judged.
    free: Instant,
    /// The same for addresses without many wrong proofs of their own.
    free_elsewhere: Instant,
}

struct Table<K>(HashMap<K, Wrong>);

impl<K> Default for Table<K> {
    fn default() -> Table<K> {
        Table(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    /// When the next proof may be judged, if it has to wait.
    fn next(&self, key: &K, now: Instant) -> Option<Instant> {
        let wrong = self.0.get(key).filter(|w| now < w.last + MEMORY && w.count >= FREE)?;
        let wait = FIRST.saturating_mul(1 << (wrong.count - FREE).min(5)).min(LONGEST);
        Some(wrong.free.max(now) + wait)
    }

    /// The same where few were wrong.
    fn next_elsewhere(&self, key: &K, now: Instant) -> Option<Instant> {
        self.next(key, now)?;
        self.0.get(key).map(|wrong| wrong.free_elsewhere.max(now) + FIRST)
    }

    fn put_off(&mut self, key: &K, until: Instant) {
        if let Some(wrong) = self.0.get_mut(key) {
            wrong.free = wrong.free.max(until);
        }
    }

    fn put_off_elsewhere(&mut self, key: &K, until: Instant) {
        if let Some(wrong) = self.0.get_mut(key) {
            wrong.free_elsewhere = wrong.free_elsewhere.max(until);
        }
    }

    /// Whether a proof waits for its time.
    fn waits(&self, key: &K, now: Instant) -> bool {
        self.0.get(key).is_some_and(|wrong| now < wrong.free)
    }

    fn wrong(&mut self, key: &K, now: Instant) {
        let wrong = self.entry(key, now);
        if now >= wrong.last + MEMORY {
            (wrong.count, wrong.free, wrong.free_elsewhere) = (0, now, now);
        }
        (wrong.count, wrong.last) = (wrong.count + 1, now);
    }

    fn entry(&mut self, key: &K, now: Instant) -> &mut Wrong {
        if !self.0.contains_key(key) && self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, w)| w.last).map(|(key, _)| key.clone());
            oldest.map(|key| self.0.remove(&key));
        }
        let new = Wrong { count: 0, last: now, free: now, free_elsewhere: now };
        self.0.entry(key.clone()).or_insert(new)
    }
}

impl Brake {
    /// When a proof that arrives now is judged, behind the waiting ones. None if it would wait for too long: then it is
    /// refused unjudged.
    pub(crate) fn when(
        &mut self,
        address: Option<IpAddr>,
        name: &str,
        now: Instant,
    ) -> Option<Instant> {
        let (address, name) = (address.map(network), name.to_string());
        let by_address = address.and_then(|address| self.addresses.next(&address, now));
        let is_known = address.is_some_and(|a| self.proved.contains_key(&(a, name.clone())));
        let pair = address.map(|address| (address, name.clone()));
        let is_suspect = |pair| self.pairs.next(pair, now).is_some() || self.pairs.waits(pair, now);
        let guesses = by_address.is_some() || pair.as_ref().is_none_or(is_suspect);
        let of = |table: &Table<String>| match guesses {
            true => table.next(&name, now),
            false => table.next_elsewhere(&name, now),
        };
        let by_name = if is_known { None } else { of(&self.names).or_else(|| of(&self.others)) };
        // An address may be shared with somebody who guesses and has a right proof of another name.
        let by_pair = pair.as_ref().filter(|_| is_known).and_then(|p| self.pairs.next(p, now));
        let at = by_address.into_iter().chain(by_pair).chain(by_name).max().unwrap_or(now);
        if at > now + LONGEST {
            return None;
        }
        if let Some(address) = address.filter(|_| by_address.is_some()) {
            self.addresses.put_off(&address, at);
        }
        if let Some(pair) = pair.as_ref().filter(|_| by_name.is_some() && !guesses) {
            // No more than one waits for its turn with those of other addresses.
            self.pairs.entry(pair, now).free = at;
        }
        if let Some(pair) = pair.filter(|_| by_pair.is_some()) {
            self.pairs.put_off(&pair, at);
        }
        if by_name.is_some() {
            for table in [&mut self.names, &mut self.others] {
                match guesses {
                    true => table.put_off(&name, at),
                    false => table.put_off_elsewhere(&name, at),
                }
            }
        }
        Some(at)
    }

    /// A proof was wrong, of a name that a host has or none.
    pub(crate) fn wrong(
        &mut self,
        address: Option<IpAddr>,
        (name, is_host): (&str, bool),
        now: Instant,
    ) {
        if let Some(address) = address {
            let address = network(address);
            self.addresses.wrong(&address, now);
            self.pairs.wrong(&(address, name.to_string()), now);
        }
        let names = if is_host { &mut self.names } else { &mut self.others };
        names.wrong(&name.to_string(), now);
    }

    /// A proof was right.
    pub(crate) fn right(&mut self, address: Option<IpAddr>, name: &str, now: Instant) {
        let Some(address) = address.map(network) else { return };
        if self.proved.len() >= MOST {
            let oldest = self.proved.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            oldest.map(|key| self.proved.remove(&key));
        }
        self.proved.insert((address, name.to_string()), now);
        self.addresses.0.remove(&address);
        self.pairs.0.remove(&(address, name.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));
    const THERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)));

    fn wait(brake: &mut Brake, address: Option<IpAddr>, name: &str, now: Instant) -> Option<u64> {
        brake.when(address, name, now).map(|at| at.duration_since(now).as_secs())
    }

    #[test]
    fn after_three_wrong_ones_each_waits_twice_as_long() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..10 {
            let waited = wait(&mut brake, HERE, "web", now).unwrap();
            waits.push(waited);
            now += Duration::from_secs(waited);
            brake.wrong(HERE, ("web", true), now);
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(wait(&mut brake, HERE, "other", now), Some(30), "by the address");
        assert_eq!(wait(&mut brake, THERE, "other", now), Some(0));
        assert_eq!(wait(&mut brake, THERE, "other", now + MEMORY), Some(0));
        assert_eq!(wait(&mut brake, HERE, "web", now + MEMORY), Some(0), "it is forgotten");
        brake.wrong(HERE, ("web", true), now + MEMORY);
        assert_eq!(wait(&mut brake, HERE, "web", now + MEMORY), Some(0), "and begins again");
    }

    #[test]
    fn those_at_the_same_time_wait_for_one_another() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        for _ in 0..5 {
            brake.wrong(None, ("web", true), now);
        }
        let mut waits: Vec<_> = (0..9).map(|_| wait(&mut brake, None, "web", now)).collect();
        let judged = waits.iter().flatten().copied().collect::<Vec<_>>();
        assert_eq!(judged, [4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(waits.split_off(7), [None, None], "no queue is longer");
    }

    #[test]
    fn guesses_at_one_address_lock_nobody_out_at_others() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        (0..20).for_each(|_| brake.wrong(HERE, ("web", true), now));
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(30));
        assert_eq!(wait(&mut brake, HERE, "web", now), None);
        let at = |n: u8| Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, n)));
        let waits: Vec<_> = (0..31).map(|n| wait(&mut brake, at(n), "web", now)).collect();
        let expected = (1..=30).map(Some).chain([None]).collect::<Vec<_>>();
        assert_eq!(waits, expected, "those without wrong proofs of their own, one by one");
        assert_eq!(wait(&mut brake, at(0), "web", now), None, "one of each");
    }

    #[test]
    fn a_right_proof_of_one_name_does_not_excuse_guesses_at_another() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        for _ in 0..10 {
            brake.wrong(HERE, ("web", true), now);
            brake.right(HERE, "own", now);
        }
        assert_eq!(wait(&mut brake, HERE, "own", now), Some(0));
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(30));
        brake.right(HERE, "web", now);
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(0));
    }

    #[test]
    fn where_a_name_was_proved_guesses_at_it_are_slow_as_well() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        brake.right(HERE, "web", now);
        for _ in 0..10 {
            brake.wrong(HERE, ("web", true), now);
            brake.right(HERE, "own", now);
        }
        assert_eq!(wait(&mut brake, HERE, "own", now), Some(0));
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(30));
        assert_eq!(wait(&mut brake, HERE, "web", now), None, "behind the first");
    }

    #[test]
    fn a_host_where_it_is_known_is_not_slowed_down_by_others() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        brake.right(HERE, "web", now);
        (0..20).for_each(|_| brake.wrong(THERE, ("web", true), now));
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(0));
        assert_eq!(wait(&mut brake, THERE, "web", now), Some(30));
        assert_eq!(wait(&mut brake, None, "web", now + Duration::from_secs(1)), None);
        (0..4).for_each(|_| brake.wrong(HERE, ("db", true), now));
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(2), "its own count");
        brake.right(HERE, "web", now);
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(0));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        for n in 0..3000u32 {
            let address = Some(IpAddr::V4(n.into()));
            let now = now + Duration::from_millis(n.into());
            brake.wrong(address, (&format!("host-{n}"), n % 2 == 0), now);
            brake.right(Some(IpAddr::V4((n + 5000).into())), "web", now);
        }
        let (addresses, names) = (brake.addresses.0.len(), brake.names.0.len());
        assert_eq!((addresses, names, brake.proved.len()), (MOST, MOST, MOST));
        assert_eq!(brake.others.0.len(), MOST);
        assert!(brake.names.0.contains_key("host-2998"));
    }

    #[test]
    fn made_up_names_do_not_make_a_hosts_name_forgotten() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        (0..5).for_each(|_| brake.wrong(None, ("web", true), now));
        for n in 0..5000u32 {
            brake.wrong(None, (&format!("no-host-{n}"), false), now + Duration::from_millis(1));
        }
        let later = now + Duration::from_millis(2);
        assert_eq!(wait(&mut brake, None, "web", later), Some(4));
        (0..5).for_each(|_| brake.wrong(None, ("made-up", false), later));
        assert_eq!(wait(&mut brake, None, "made-up", later), Some(4), "both wait alike");
        assert_eq!(wait(&mut brake, THERE, "web", later), Some(1));
        assert_eq!(wait(&mut brake, THERE, "made-up", later), Some(1));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        let at = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        for n in 0..5 {
            brake.wrong(at(&format!("2001:db8::{n}")), (&format!("n{n}"), false), now);
        }
        assert_eq!(wait(&mut brake, at("2001:db8::ffff:1"), "web", now), Some(4));
        assert_eq!(wait(&mut brake, at("2001:db8:0:1::1"), "web", now), Some(0));
        (0..5).for_each(|_| brake.wrong(at("::ffff:10.0.0.1"), ("a", false), now));
        assert_eq!(wait(&mut brake, HERE, "web", now), Some(4), "the same machine");
        assert_eq!(wait(&mut brake, THERE, "web", now), Some(0));
    }
}
