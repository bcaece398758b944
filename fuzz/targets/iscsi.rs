//! What an iSCSI initiator may send, from its first byte on. The first byte of the input says in what pieces the rest
//! arrives: whatever they are, the same is done and answered. With its highest bit set, a login stands before the rest, with
//! one of several agreements: so commands are reached at once. With the next bit alone, initiators must prove who they are.
#![no_main]

use std::cell::Cell;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_front::iscsi::reservation::{Held, Kind, Outcome, Registrant, State};
use weft_front::iscsi::{
    Algorithm, Challenge, Chap, Claim, Event, Failure, Gate, Op, Piece, Port, Refusal, Reply,
    Request, Server, Target, Unit,
};
use weft_fuzz::Talk;

const SIZE: u64 = 128 << 10;
const NAME: &str = "iqn.a:disk";

fn unit() -> Unit {
    Unit {
        target: NAME.into(),
        alias: "disk".into(),
        group: 1,
        size: SIZE,
        block: 512,
        read_only: false,
        thin: false,
        modifies: true,
        atomic: 64 << 10,
        write_cache: true,
        id: 7,
        short_id: 7,
        held: Held::Nobody,
    }
}

/// How the door is kept where initiators must prove who they are.
fn gate() -> Gate {
    Gate { chap: Chap::Required, challenge: Challenge { identifier: 1, bytes: [1; 32] }, group: 1 }
}

/// Judges a claim by the first byte of its answer; a malformed one is the machine's fault.
fn judge(server: &mut Server, claim: &Claim) {
    assert_eq!(claim.response.len(), claim.algorithm.digest_len(), "{claim:?}");
    assert_eq!(claim.challenge, gate().challenge, "{claim:?}");
    let reflects = claim.asks.as_ref().is_some_and(|(_, bytes)| bytes[..] == claim.challenge.bytes);
    assert!(!reflects, "{claim:?}");
    assert!(Algorithm::ALL.contains(&claim.algorithm));
    let proof = [2; 16];
    match claim.response[0] {
        of @ 0..2 => server.disproved(of == 0),
        _ => server.proved(claim.asks.as_ref().map(|_| ("weft", &proof[..]))),
    }
}

fn talk(bytes: &[u8], most: usize, must_prove: bool) -> Talk {
    let mut server = Server::new();
    if must_prove {
        server.guard(gate());
    }
    let is_proved = Cell::new(!must_prove);
    weft_fuzz::talk(server, bytes, most, |server| {
        let Some(event) = server.poll().map_err(|e| e.to_string())? else { return Ok(None) };
        let heard = format!("{event:?}");
        match event {
            Event::Prove(claim) => {
                is_proved.set(is_proved.get() || claim.response[0] != 0);
                judge(server, &claim);
            }
            Event::Unproved(_) | Event::ColdReset => {}
            _ if !is_proved.get() => {
                panic!("{heard} of an initiator that has not proved who it is")
            }
            Event::List => {
                let portals = vec![("[::1]:3260".to_string(), 1)];
                server.targets(&[Target { name: NAME.into(), portals }]);
            }
            Event::Login(nexus) if nexus.target == NAME => server.admit(unit(), 1),
            Event::Login(_) => server.turn_away(Refusal::NotFound),
            Event::Request(request) => {
                let result = carry_out(&request);
                server.reply(request.number, result);
            }
        }
        Ok(Some(heard))
    })
}

/// The answer of a disk of zeros, half of them holes; a request that it could not carry out is the machine's fault.
fn carry_out(request: &Request) -> Result<Reply, Failure> {
    let end = request.offset.checked_add(request.length);
    assert!(end.is_some_and(|end| end <= SIZE), "{request:?}");
    let of_all = matches!(request.op, Op::Flush | Op::Reserve(_) | Op::Reservations | Op::Ports);
    assert_eq!(request.length == 0, of_all, "{request:?}");
    // Some fail, and always the same.
    if request.offset == 5 * 512 {
        return Err(Failure::Busy);
    }
    Ok(match &request.op {
        Op::Read => {
            let half = request.length / 2;
            let data = Piece::Data(Bytes::from(vec![0; half as usize]));
            Reply::Pieces(vec![data, Piece::Zeroes(request.length - half)])
        }
        Op::CompareAndWrite { expected, data } => {
            assert_eq!(expected.len() as u64, request.length);
            assert_eq!(data.len(), expected.len());
            return Err(Failure::Differs(3));
        }
        Op::Write(bytes) | Op::OrWrite(bytes) => {
            assert_eq!(bytes.len() as u64, request.length);
            Reply::Done
        }
        Op::Holes => {
            Reply::Extents(vec![(request.length.div_ceil(2), true), (request.length, false)])
        }
        Op::WriteZeroes | Op::Flush => Reply::Done,
        Op::Ports => Reply::Ports(vec![Port { group: 1, is_available: true }]),
        Op::Reserve(_) => Reply::Reserved(Outcome::Conflict),
        Op::Reservations => {
            let holder = Registrant { name: "iqn.a,i,0x1".into(), port: 1, key: 5, holds: true };
            let reservation = Some(Kind::ExclusiveAccess);
            Reply::Reservations(State { generation: 1, registrants: vec![holder], reservation })
        }
    })
}

/// The login of a session, in which these keys are agreed on.
fn login(keys: &str) -> Vec<u8> {
    let text = format!("InitiatorName=iqn.b\0TargetName={NAME}\0{keys}");
    let mut bytes = vec![0; 48];
    (bytes[0], bytes[1], bytes[7], bytes[8]) = (0x43, 0x87, text.len() as u8, 0x80);
    bytes.extend(text.bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((pieces, rest)) = input.split_first() else { return };
    let before = match pieces >> 6 {
        2 => login("InitialR2T=No\0MaxBurstLength=1024\0"),
        3 => login("InitialR2T=No\0ImmediateData=No\0MaxRecvDataSegmentLength=512\0"),
        _ => Vec::new(),
    };
    let bytes = [&before, rest].concat();
    let must_prove = pieces >> 6 == 1;
    let at_once = talk(&bytes, usize::MAX, must_prove);
    assert_eq!(at_once, talk(&bytes, 1 + usize::from(*pieces & 0x3f), must_prove));
});
