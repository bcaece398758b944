//! The table against itself: words and numbers are different, and each value is read back.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A policy for each value of each choice.
fn each() -> Vec<(&'static Choice, Setting)> {
    let of = |c: &'static Choice| {
        c.values().into_iter().map(move |v| (c, c.parse(v.word).expect("a word of the table")))
    };
    CHOICES.iter().flat_map(of).collect()
}

fn numbers<T: Valued>() {
    let tags: BTreeSet<u8> = T::ROWS.iter().map(|r| r.tag).collect();
    let words: BTreeSet<&str> = T::ROWS.iter().map(|r| r.word).collect();
    assert_eq!((tags.len(), words.len()), (T::ROWS.len(), T::ROWS.len()), "{}", T::KEY);
    assert!(T::ROWS.iter().all(|r| T::numbered(r.tag) == Some(r.value)));
    assert!(choice(T::KEY).is_some_and(|c| c.values().len() == T::ROWS.len()), "{}", T::KEY);
}

#[test]
fn numbers_and_words_are_used_once() {
    numbers::<Option<Preference>>();
    numbers::<Option<CalculatedAt>>();
    numbers::<Dispatch>();
    numbers::<Roles>();
    numbers::<Commit>();
    numbers::<Ordering>();
    numbers::<SequencerForm>();
    let keys: BTreeSet<&str> = CHOICES.iter().map(|c| c.key).collect();
    assert_eq!(keys.len(), CHOICES.len());
}

#[test]
fn every_value_is_made_said_and_read_back() {
    for (choice, setting) in each() {
        let policy = Policy::default().with([setting]);
        assert_eq!(choice.of(&policy), setting);
        assert_eq!(choice.parse(&choice.word_of(&policy)), Ok(setting), "{}", choice.key);
        assert_eq!(choice.key, setting.key());
        // Of a default nothing but this is otherwise, and what it settles, too.
        let both = |c: &Choice| choice.settles == Some(c.key) || c.settles == Some(choice.key);
        let others = CHOICES.iter().filter(|c| c.key != setting.key() && !both(c));
        for other in others {
            assert_eq!(other.of(&policy), other.of(&Policy::default()), "{setting}: {}", other.key);
        }
    }
    assert_eq!(Ordering::ALL, Ordering::CHOICES.map(|r| r.value));
    assert_eq!(SequencerForm::ALL, SequencerForm::CHOICES.map(|r| r.value));
}

#[test]
fn what_there_is_not_is_refused_with_what_there_is() {
    for choice in CHOICES.iter() {
        let refused = choice.parse("nothing").unwrap_err().to_string();
        // Of numbers and times the words are examples.
        let is_measure = choice.words().any(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let known = choice.words().all(|word| refused.contains(word));
        assert!(
            known
                || is_measure
                    && (refused.contains("; give a ") || refused.contains("is not a duration")),
            "{refused}"
        );
    }
    let refused = |words: &[(&str, &str)]| {
        let set: BTreeMap<String, String> =
            words.iter().map(|(k, w)| (k.to_string(), w.to_string())).collect();
        settings(&set, |c| c.in_use).unwrap_err().to_string()
    };
    assert!(refused(&[("commit", "nothing")]).contains("late or limited"));
    assert!(refused(&[("lost-wait", "20")]).contains("30s, 15m, 12h or 7d, or forever"));
    let keys = refused(&[("order", "none")]);
    assert!(keys.contains("strategy, calculator, dispatch") && !keys.contains("journal"), "{keys}");
    assert!(refused(&[("dispatch", "commanded"), ("roles", "host")]).contains("one choice"));
    assert!(refused(&[("calculator", "tree"), ("parity-at", "tree")]).contains("one choice"));
}

#[test]
fn what_does_not_go_together_is_refused_with_what_would_do() {
    let say = |words: &str| {
        let set = words.split(' ').map(|w| w.split_once('=').expect("key=word"));
        settings(&set.map(|(k, w)| (k.to_string(), w.to_string())).collect(), |_| true).unwrap()
    };
    let check = |before: &str, words: &str| {
        let before =
            if before.is_empty() { Policy::default() } else { Policy::default().with(say(before)) };
        before.with(say(words)).check_for_volume(&say(words)).map_err(|e| e.to_string())
    };
    for (before, good) in [
        ("", "commit=limited dispatch=commanded"),
        ("dispatch=commanded", "commit=limited"),
        ("", "calculator=solely"),
        // As it was called once.
        ("", "parity-at=solely"),
        ("", "parity-at=originator dispatch=commanded"),
        ("", "sequencer=worker-driven ordering=sequencer"),
        ("ordering=sequencer", "sequencer=worker-driven"),
        ("commit=limited dispatch=commanded", "commit=late dispatch=collaborative"),
        // What is there already, and has nothing to do with it, is nobody's fault now.
        ("commit=limited", "strategy=small"),
        ("parity-at=parity dispatch=commanded", "lost-wait=5m"),
        ("commit=limited dispatch=commanded", "ordering=none"),
        ("", "roles=controller parity-at=parity inline=4K"),
        ("roles=controller", "inline=1M"),
        ("", "roles=controller commands=block"),
        ("roles=controller inline=4K", "inline=0 commands=block"),
        ("", "roles=controller calculator=tree"),
        ("calculator=balanced", "roles=controller"),
        ("commit=limited dispatch=commanded", "roles=central commit=late"),
        ("", "burst=10s iops=500"),
        ("bandwidth=20M", "burst=10s"),
        ("iops=500 burst=10s", "iops=none"),
        ("p99=5ms", "p99=none"),
        ("", "snapshots=hourly:24"),
        ("snapshots=hourly:24", "snapshots=none redundancy=deferred"),
        ("journal=off", "snapshots=none"),
    ] {
        assert_eq!(check(before, good), Ok(()), "{before}, {good}");
    }
    for (before, other) in [("inline=4K", "roles=node"), ("commands=block", "roles=central")] {
        let controller = Policy::default().with(say(&format!("roles=controller {before}")));
        let after = controller.with(say(other));
        assert_eq!(after, Policy::default().with(say(other)), "{before} was for the controller");
        assert_eq!(after.check_for_volume(&say(other)), Ok(()));
    }
    for (before, bad, given, with, instead) in [
        ("", "commit=limited", "commit=limited", "dispatch=collaborative", "dispatch=commanded"),
        (
            "commit=limited dispatch=commanded",
            "dispatch=collaborative",
            "dispatch=collaborative",
            "commit=limited",
            "another commit",
        ),
        (
            "dispatch=commanded",
            "calculator=tree",
            "calculator=tree",
            "dispatch=commanded",
            "calculator=auto",
        ),
        (
            "parity-at=solely",
            "dispatch=commanded",
            "dispatch=commanded",
            "calculator=solely",
            "calculator=auto",
        ),
        ("", "sequencer=centralized", "sequencer=centralized", "ordering=timestamps", "also set"),
        (
            "dispatch=commanded",
            "commit=limited journal=on",
            "journal=on",
            "commit=limited",
            "commit=late",
        ),
        (
            "commit=limited dispatch=commanded",
            "roles=central",
            "roles=central",
            "commit=limited",
            "commit=late",
        ),
        (
            "parity-at=solely",
            "roles=host",
            "dispatch=commanded",
            "calculator=solely",
            "calculator=auto",
        ),
        (
            "roles=controller",
            "parity-at=originator",
            "calculator=originator",
            "roles=controller",
            "calculator=auto",
        ),
        (
            "roles=controller",
            "dispatch=commanded",
            "dispatch=commanded",
            "roles=controller",
            "roles=central",
        ),
        ("", "inline=4K", "inline=4K", "roles=node", "also set"),
        ("", "burst=10s", "burst=10s", "iops=none", "also set iops or bandwidth"),
        ("", "commands=block", "commands=block", "roles=node", "also set"),
        ("journal=off", "snapshots=daily:7", "snapshots=daily:7", "journal=off", "a journal"),
        (
            "commit=limited dispatch=commanded",
            "snapshots=daily:7",
            "snapshots=daily:7",
            "commit=limited",
            "commit=late",
        ),
        (
            "snapshots=daily:7",
            "redundancy=deferred",
            "redundancy=deferred",
            "snapshots=daily:7",
            "snapshots=none",
        ),
        ("roles=controller inline=4K", "commands=block", "commands=block", "inline=4K", "inline=0"),
        (
            "roles=controller commands=block",
            "inline=4K",
            "inline=4K",
            "commands=block",
            "commands=column",
        ),
    ] {
        let refused = check(before, bad).unwrap_err();
        assert!(refused.starts_with(&format!("{given} conflicts with {with}")), "{refused}");
        assert!(refused.contains(instead), "{refused}");
    }
    let measuring = check("", "commit=none").unwrap_err();
    assert!(measuring.contains("choose late or limited"), "{measuring}");
    let warned = |words: &str| Policy::default().with(say(words)).warnings().count();
    assert_eq!(
        [warned("commit=limited"), warned("ordering=none"), warned("strategy=small")],
        [1, 1, 0]
    );
}

#[test]
fn keys_have_dashes_or_underscores() {
    let set = |keys: &[&str]| {
        let words = keys.iter().map(|key| (key.to_string(), "5m".to_string()));
        settings(&words.collect(), |_| true)
    };
    let expected = choice("lost-wait").unwrap().parse("5m").unwrap();
    assert_eq!(set(&["lost_wait"]), Ok(vec![expected]));
    assert_eq!(set(&["lost-wait"]), Ok(vec![expected]));
    let twice = PolicyError::Twice("lost-wait", "lost-wait");
    assert_eq!(set(&["lost-wait", "lost_wait"]), Err(twice));
    assert_eq!(choice("parity_at").map(|c| c.key), Some("calculator"));
    assert!(set(&["lost wait"]).is_err());
}
