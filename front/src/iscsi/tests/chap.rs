//! Initiators that prove who they are by CHAP, and some that do not (RFC 7143, 12.1.3).

use super::initiator::{MUTUAL, SECRET, response_of};
use super::*;
use crate::iscsi::chap::{Algorithm, Challenge, Chap, Unproved};
use crate::iscsi::{Gate, keys};
use crate::{Awaits, Machine, Service};

const NAMES: &str = "InitiatorName=iqn.a\0TargetName=iqn.2026-11.weft.example:vol0\0";

/// In the first stage, to stay or to go on to the second or to the session.
const STAY: u8 = 0x00;
const ON: u8 = 0x81;
const INTO: u8 = 0x83;

const BYTES: [u8; 32] = *b"thirty-two bytes of a challenge!";

fn at(chap: Chap) -> Initiator {
    let mut initiator = Initiator::new();
    let challenge = Challenge { identifier: 200, bytes: BYTES };
    initiator.server.guard(Gate { chap, challenge, group: 1 });
    initiator
}

/// The value of a key in an answer.
fn value(unit: &Unit, key: &str) -> Option<String> {
    let all = keys::parse(&unit.data).unwrap();
    all.into_iter().find(|(k, _)| k == key).map(|(_, value)| value)
}

fn say(i: &mut Initiator, flags: u8, keys: &str) -> Unit {
    i.login(flags, keys.as_bytes())
}

fn status(unit: &Unit) -> u16 {
    unit.head.half(36)
}

/// An initiator that has been asked with this digest.
fn challenged(algorithm: Algorithm) -> Initiator {
    let mut i = at(Chap::Required);
    let answer = say(&mut i, ON, &format!("{NAMES}AuthMethod=CHAP,None\0"));
    assert_eq!((status(&answer), answer.head.flags()), (0, 0), "the stage is not left");
    assert_eq!(value(&answer, "AuthMethod").as_deref(), Some("CHAP"));
    assert_eq!(value(&answer, "TargetPortalGroupTag").as_deref(), Some("1"));
    let answer = say(&mut i, STAY, &format!("CHAP_A=99,{}\0", algorithm as u8));
    assert_eq!(value(&answer, "CHAP_A"), Some((algorithm as u8).to_string()));
    assert_eq!(value(&answer, "CHAP_I").as_deref(), Some("200"));
    assert_eq!(value(&answer, "CHAP_C"), Some(keys::hexadecimal(&BYTES)));
    i
}

fn proof(algorithm: Algorithm, secret: &str) -> String {
    let response = response_of(algorithm, 200, secret, &BYTES);
    format!("CHAP_N=web\0CHAP_R={}\0", keys::hexadecimal(&response))
}

#[test]
fn whoever_knows_the_secret_comes_in_with_each_digest() {
    for algorithm in Algorithm::ALL {
        let mut i = challenged(algorithm);
        assert_eq!(i.admitted, 0, "nothing is looked up before");
        let answer = say(&mut i, ON, &proof(algorithm, SECRET));
        assert_eq!((status(&answer), answer.head.flags()), (0, ON), "{answer:?}");
        assert_eq!(value(&answer, "TargetPortalGroupTag"), None, "it has been said");
        assert_eq!((value(&answer, "CHAP_R"), i.admitted), (None, 1));
        let answer = i.login(0x87, b"");
        assert_eq!((answer.head.flags(), answer.head.half(14)), (0x87, 5));
        assert_eq!(i.read(&[0; 6], 0).1.status(), 0, "TEST UNIT READY");
    }
}

#[test]
fn the_strongest_digest_is_taken() {
    for (offered, taken) in [("5,6,7,8", "8"), ("5,0x7", "7"), ("6,5", "5")] {
        let mut i = at(Chap::Required);
        say(&mut i, STAY, &format!("{NAMES}AuthMethod=KRB5,CHAP\0"));
        let answer = say(&mut i, STAY, &format!("CHAP_A={offered}\0"));
        assert_eq!(value(&answer, "CHAP_A").as_deref(), Some(taken), "{offered}");
    }
    let mut i = at(Chap::Required);
    say(&mut i, STAY, &format!("{NAMES}AuthMethod=CHAP\0"));
    assert_eq!(status(&say(&mut i, STAY, "CHAP_A=6,9\0")), 0x0201);
    assert_eq!(i.unproved, Some(Unproved::NoAlgorithm));
}

#[test]
fn a_wrong_answer_or_name_ends_the_login() {
    let wrong_name = proof(Algorithm::Md5, SECRET).replace("web", "wed");
    for keys in [proof(Algorithm::Md5, "another secret"), wrong_name] {
        let mut i = challenged(Algorithm::Md5);
        let answer = say(&mut i, INTO, &keys);
        assert_eq!((status(&answer), i.server.closing(), i.admitted), (0x0201, true, 0));
        assert_eq!(i.unproved, None, "the driver knows");
    }
}

#[test]
fn the_target_proves_itself_if_it_is_asked() {
    let (algorithm, theirs) = (Algorithm::Sha256, [7; 16]);
    for challenge in [keys::hexadecimal(&theirs), "0bBwcHBwcHBwcHBwcHBwcHBw==".to_string()] {
        let mut i = challenged(algorithm);
        let asks = format!("CHAP_I=0x1f\0CHAP_C={challenge}\0");
        let answer = say(&mut i, INTO, &(proof(algorithm, SECRET) + &asks));
        assert_eq!((status(&answer), answer.head.flags()), (0, INTO));
        assert_eq!(value(&answer, "CHAP_N").as_deref(), Some("weft"));
        let expected = response_of(algorithm, 0x1f, MUTUAL, &theirs);
        assert_eq!(value(&answer, "CHAP_R"), Some(keys::hexadecimal(&expected)));
        assert_eq!(i.claims[0].asks, Some((0x1f, theirs.to_vec())));
    }
    // Its own challenge would have the target answer it for the initiator.
    let mut i = challenged(algorithm);
    let asks = format!("CHAP_I=1\0CHAP_C={}\0", keys::hexadecimal(&BYTES));
    assert_eq!(status(&say(&mut i, INTO, &(proof(algorithm, SECRET) + &asks))), 0x0201);
    assert_eq!((i.unproved, i.server.closing()), (Some(Unproved::Reflected), true));
}

#[test]
fn keys_out_of_order_or_malformed_end_the_login() {
    let right = proof(Algorithm::Md5, SECRET);
    let (name, response) = right.split_at(right.find("CHAP_R").unwrap());
    let long = format!("{name}CHAP_R={}\0", keys::hexadecimal(&[1; 32]));
    for (keys, why) in [
        (name.to_string(), Unproved::Order),
        (response.to_string(), Unproved::Order),
        (format!("{right}CHAP_I=1\0"), Unproved::Order),
        (format!("{right}CHAP_C=0x12\0"), Unproved::Order),
        (format!("{right}CHAP_I=256\0CHAP_C=0x12\0"), Unproved::Malformed),
        (format!("{right}CHAP_I=1\0CHAP_C=12\0"), Unproved::Malformed),
        (format!("{right}CHAP_I=1\0CHAP_C=0x\0"), Unproved::Malformed),
        (long, Unproved::Malformed),
        (format!("{name}CHAP_R=nonsense\0"), Unproved::Malformed),
        (format!("CHAP_N={}\0{response}", "n".repeat(256)), Unproved::Malformed),
    ] {
        let mut i = challenged(Algorithm::Md5);
        assert_eq!(status(&say(&mut i, INTO, &keys)), 0x0200, "{keys}");
        assert_eq!((i.unproved, i.admitted), (Some(why), 0), "{keys}");
    }
    let mut i = challenged(Algorithm::Md5);
    assert_eq!(status(&say(&mut i, STAY, "CHAP_A=5\0")), 0x0200, "each key comes once");
    // An answer before there was a challenge, and before there was a method.
    let mut i = at(Chap::Required);
    say(&mut i, STAY, &format!("{NAMES}AuthMethod=CHAP\0"));
    assert_eq!(status(&say(&mut i, STAY, &format!("CHAP_A=5\0{right}"))), 0x0200);
    let mut i = at(Chap::Offered);
    assert_eq!(status(&say(&mut i, INTO, &format!("{NAMES}{right}"))), 0x0200);
    assert_eq!(i.admitted, 0);
}

#[test]
fn what_is_required_cannot_be_left_out() {
    for (flags, keys) in [
        (INTO, NAMES.to_string()),
        (0x87, NAMES.to_string()),
        (STAY, format!("{NAMES}AuthMethod=None\0")),
        (0x87, format!("{NAMES}AuthMethod=CHAP\0")),
        (INTO, "InitiatorName=iqn.a\0SessionType=Discovery\0".to_string()),
    ] {
        let mut i = at(Chap::Required);
        let answer = say(&mut i, flags, &keys);
        assert_eq!((status(&answer), i.admitted), (0x0201, 0), "{flags:#x} {keys}");
        assert_eq!(i.unproved, Some(Unproved::NotOffered));
    }
    // Whoever says nothing stays where it is.
    let mut i = challenged(Algorithm::Sha3);
    for _ in 0..50 {
        let answer = say(&mut i, INTO, "");
        assert_eq!((status(&answer), answer.head.flags(), i.admitted), (0, 0, 0));
    }
    assert_eq!(i.server.awaits(), Awaits::Greeting);
    i.server.guard(Gate::default());
    assert_eq!(status(&say(&mut i, 0x87, "")), 0x020b, "the door is as it was at first");
}

#[test]
fn where_it_is_not_required_the_initiator_chooses() {
    for (offered, chap, taken) in [
        ("None,CHAP", Chap::Offered, "None"),
        ("CHAP,None", Chap::Offered, "CHAP"),
        ("CHAP,None", Chap::Off, "None"),
        ("None,CHAP", Chap::Required, "CHAP"),
    ] {
        let mut i = at(chap);
        let answer = say(&mut i, STAY, &format!("{NAMES}AuthMethod={offered}\0"));
        assert_eq!(value(&answer, "AuthMethod").as_deref(), Some(taken), "{offered} {chap:?}");
        assert_eq!(i.admitted, usize::from(taken == "None"));
    }
    let mut i = at(Chap::Off);
    assert_eq!(status(&say(&mut i, STAY, &format!("{NAMES}AuthMethod=CHAP\0"))), 0x0201);
    assert_eq!(i.unproved, Some(Unproved::NoMethod));
    let mut i = at(Chap::Offered);
    assert_eq!(status(&say(&mut i, 0x87, NAMES)), 0, "without a word of it");
}

#[test]
fn targets_are_listed_for_those_who_have_proved_who_they_are() {
    let mut i = at(Chap::Required);
    let begin = "InitiatorName=iqn.a\0SessionType=Discovery\0AuthMethod=CHAP\0";
    assert_eq!(status(&say(&mut i, STAY, begin)), 0);
    say(&mut i, STAY, "CHAP_A=8\0");
    let answer = say(&mut i, INTO, &proof(Algorithm::Sha3, SECRET));
    assert_eq!((status(&answer), answer.head.flags()), (0, INTO));
    assert_eq!(i.targets("iqn.t:77").matches("TargetName").count(), 1);
}
