//! Delays after wrong passwords, by address and by name.
//!
//! An attempt that comes too early is refused at once and not judged, so that whoever guesses holds no place of others. An
//! address at which a name was proved does not suffer from guesses elsewhere. Another without many wrong passwords of its own
//! waits for those like it alone, one second each: so nobody is locked out by one who guesses, and many who guess are slow.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Wrong passwords without a delay.
const FREE: u32 = 3;

/// The first delay and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// After this time without a wrong password the count begins again.
const MEMORY: Duration = Duration::from_secs(600);

/// The most addresses and names that are remembered.
const MOST: usize = 1024;

/// Wrong passwords so far.
#[derive(Default)]
pub(crate) struct Attempts {
    addresses: HashMap<IpAddr, Wrong>,
    /// Names of users.
    names: HashMap<String, Wrong>,
    /// Names that no user has. They do not make a user's name forgotten.
    others: HashMap<String, Wrong>,
    /// Names at an address: a right password of another name there does not make them forgotten.
    pairs: HashMap<(IpAddr, String), Wrong>,
    proved: HashMap<(IpAddr, String), Instant>,
    /// All of them, and those that came too early.
    pub(crate) wrong: u64,
    pub(crate) early: u64,
}

#[derive(Clone, Copy)]
struct Wrong {
    count: u32,
    last: Instant,
    /// The last one from an address without many.
    elsewhere: Option<Instant>,
}

impl Wrong {
    /// How long until the next attempt is judged.
    fn left(&self, now: Instant) -> Option<Duration> {
        let more = self.count.checked_sub(FREE)?;
        let wait = FIRST.saturating_mul(1 << more.min(5)).min(LONGEST);
        let left = (self.last + wait).checked_duration_since(now)?;
        Some(left).filter(|left| !left.is_zero())
    }

    /// The same at an address without many wrong passwords.
    fn left_elsewhere(&self, now: Instant) -> Option<Duration> {
        self.count.checked_sub(FREE)?;
        (self.elsewhere? + FIRST).checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// In IPv6 one machine may have all addresses of a network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Makes room for one more.
fn make_room<K: Clone + Eq + Hash, V>(table: &mut HashMap<K, V>, last: impl Fn(&V) -> Instant) {
    if table.len() >= MOST {
        let oldest = table.iter().min_by_key(|(_, value)| last(value)).map(|(key, _)| key.clone());
        oldest.map(|key| table.remove(&key));
    }
}

/// One more. `guesses` if its address has had many.
fn count<K: Clone + Eq + Hash>(table: &mut HashMap<K, Wrong>, key: K, guesses: bool, now: Instant) {
    if !table.contains_key(&key) {
        make_room(table, |wrong| wrong.last);
    }
    let wrong = table.entry(key).or_insert(Wrong { count: 0, last: now, elsewhere: None });
    if now >= wrong.last + MEMORY {
        wrong.count = 0;
    }
    (wrong.count, wrong.last) = (wrong.count.saturating_add(1), now);
    if !guesses {
        wrong.elsewhere = Some(now);
    }
}

impl Attempts {
    /// How long an attempt has to wait, if it comes too early.
    pub(crate) fn too_early(&mut self, from: IpAddr, name: &str, now: Instant) -> Option<Duration> {
        let from = network(from);
        let is_known = self.proved.contains_key(&(from, name.to_string()));
        let by_name = self.names.get(name).or_else(|| self.others.get(name)).filter(|_| !is_known);
        let by_name = by_name.and_then(|wrong| match self.guesses(from, name, now) {
            true => wrong.left(now),
            false => wrong.left_elsewhere(now),
        });
        let by_address = self.addresses.get(&from).and_then(|wrong| wrong.left(now));
        // An address may be shared with somebody who guesses and has a right password of another name.
        let by_pair = self.pairs.get(&(from, name.to_string())).and_then(|wrong| wrong.left(now));
        let left = by_address.into_iter().chain(by_pair).chain(by_name).max();
        self.early += u64::from(left.is_some());
        left
    }

    /// Whether an address has had many wrong passwords, of all names or of this one.
    fn guesses(&self, from: IpAddr, name: &str, now: Instant) -> bool {
        let wrong = [self.addresses.get(&from), self.pairs.get(&(from, name.to_string()))];
        wrong.into_iter().flatten().any(|w| w.count >= FREE && now < w.last + MEMORY)
    }

    /// A password was wrong, for a name that a user has or none.
    pub(crate) fn wrong(&mut self, from: IpAddr, (name, is_user): (&str, bool), now: Instant) {
        self.wrong += 1;
        let from = network(from);
        let guesses = self.guesses(from, name, now);
        count(&mut self.addresses, from, guesses, now);
        count(&mut self.pairs, (from, name.to_string()), guesses, now);
        let names = if is_user { &mut self.names } else { &mut self.others };
        count(names, name.to_string(), guesses, now);
    }

    /// A password was right.
    pub(crate) fn right(&mut self, from: IpAddr, name: &str, now: Instant) {
        let from = network(from);
        make_room(&mut self.proved, |at| *at);
        self.proved.insert((from, name.to_string()), now);
        self.addresses.remove(&from);
        self.pairs.remove(&(from, name.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn left(attempts: &mut Attempts, from: IpAddr, name: &str, now: Instant) -> u64 {
        attempts.too_early(from, name, now).unwrap_or_default().as_secs()
    }

    #[test]
    fn after_three_wrong_passwords_each_costs_twice_as_long() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..10 {
            waits.push(left(&mut attempts, HERE, "ann", now));
            attempts.wrong(HERE, ("ann", true), now);
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!((attempts.wrong, attempts.early), (10, 7));
        assert_eq!(left(&mut attempts, HERE, "ben", now), 30, "by the address");
        assert_eq!(left(&mut attempts, THERE, "ann", now), 1, "by the name");
        assert_eq!(left(&mut attempts, THERE, "ben", now), 0);
        assert_eq!(left(&mut attempts, HERE, "ann", now + LONGEST), 0);
        attempts.wrong(HERE, ("ann", true), now + MEMORY);
        assert_eq!(left(&mut attempts, HERE, "ann", now + MEMORY), 0, "it begins again");
    }

    #[test]
    fn guesses_elsewhere_lock_nobody_out_where_they_were_let_in() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        attempts.right(HERE, "ann", now);
        (0..20).for_each(|_| attempts.wrong(THERE, ("ann", true), now));
        assert_eq!(left(&mut attempts, HERE, "ann", now), 0);
        assert_eq!(left(&mut attempts, THERE, "ann", now), 30);
    }

    #[test]
    fn guesses_at_one_address_lock_nobody_out_at_others() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        (0..20).for_each(|_| attempts.wrong(HERE, ("ann", true), now));
        let later = now + FIRST;
        assert_eq!(left(&mut attempts, HERE, "ann", later), 29);
        assert_eq!(left(&mut attempts, THERE, "ann", later), 0);
        // Many addresses have one attempt a second, all together.
        attempts.wrong(THERE, ("ann", true), later);
        let other = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));
        assert_eq!(left(&mut attempts, other, "ann", later), 1);
        assert_eq!(left(&mut attempts, other, "ann", later + FIRST), 0);
    }

    #[test]
    fn a_right_password_of_one_name_does_not_excuse_guesses_at_another() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..10 {
            attempts.wrong(HERE, ("ann", true), now);
            attempts.right(HERE, "ben", now);
        }
        assert_eq!(left(&mut attempts, HERE, "ben", now), 0);
        assert_eq!(left(&mut attempts, HERE, "ann", now), 30);
        attempts.right(HERE, "ann", now);
        assert_eq!(left(&mut attempts, HERE, "ann", now), 0);
    }

    #[test]
    fn where_a_name_was_proved_guesses_at_it_are_slow_as_well() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        attempts.right(HERE, "ann", now);
        for _ in 0..10 {
            attempts.wrong(HERE, ("ann", true), now);
            attempts.right(HERE, "ben", now);
        }
        assert_eq!(left(&mut attempts, HERE, "ann", now), 30);
        assert_eq!(left(&mut attempts, HERE, "ben", now), 0);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for n in 0..3000u32 {
            let at = now + Duration::from_millis(n.into());
            attempts.wrong(IpAddr::V4(n.into()), (&format!("user-{n}"), n % 2 == 0), at);
            attempts.right(IpAddr::V4((n + 5000).into()), "ann", at);
        }
        let Attempts { addresses, names, others, proved, .. } = &attempts;
        assert_eq!((addresses.len(), names.len(), proved.len()), (MOST, MOST, MOST));
        assert!(names.contains_key("user-2998") && !names.contains_key("user-0"));
        assert!(others.len() == MOST && others.contains_key("user-2999"));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for n in 0..4 {
            let from: IpAddr = format!("2001:db8::{n}").parse().unwrap();
            attempts.wrong(from, (&format!("u{n}"), false), now);
        }
        assert_eq!(left(&mut attempts, "2001:db8::99".parse().unwrap(), "ann", now), 2);
        assert_eq!(left(&mut attempts, "2001:db8:0:1::9".parse().unwrap(), "ann", now), 0);
    }
}
