//! STARTTLS: what a server says before it, and forgets with it.

use weft_front::Tls;
use weft_front::nbd::server::{Event, Export, ProtocolError, Server};
use weft_front::nbd::wire::{answer, magic, option};

use crate::raw::{answers, drain, feed, option as opt};

fn export() -> Export {
    Export::new("disk", 1 << 20)
}

fn server(tls: Tls) -> Server {
    let mut server = Server::with_tls(tls);
    feed(&mut server, &export(), &3_u32.to_be_bytes()).unwrap();
    drain(&mut server);
    server
}

fn kinds(server: &mut Server) -> Vec<u32> {
    answers(&drain(server)).into_iter().map(|(_, kind, _)| kind).collect()
}

fn go() -> Vec<u8> {
    opt(option::GO, &[&4_u32.to_be_bytes()[..], b"disk", &[0, 0]].concat())
}

fn sets_contexts() -> Vec<u8> {
    let text = |t: &[u8]| [&(t.len() as u32).to_be_bytes(), t].concat();
    let data = [text(b"disk"), 1_u32.to_be_bytes().to_vec(), text(b"base:allocation")].concat();
    opt(option::SET_META_CONTEXT, &data)
}

#[test]
fn where_tls_is_required_nothing_else_is_answered() {
    let mut server = server(Tls::Required);
    let structured = opt(option::STRUCTURED_REPLY, &[]);
    let long = opt(option::INFO, &[0; 9000]);
    let unknown = opt(99, &[1, 2, 3]);
    let all = [opt(option::LIST, &[]), structured, go(), sets_contexts(), unknown, long].concat();
    feed(&mut server, &export(), &all).unwrap();
    assert_eq!(kinds(&mut server), [answer::ERR_TLS_REQD; 6]);
    assert!(server.opened().is_none() && !server.closing());
    feed(&mut server, &export(), &opt(option::EXPORT_NAME, b"disk")).unwrap();
    assert!(server.closing(), "it cannot be answered, so the connection ends");
    assert_eq!(server.output_len(), 0);
}

#[test]
fn one_can_leave_where_tls_is_required() {
    let mut server = server(Tls::Required);
    feed(&mut server, &export(), &opt(option::ABORT, &[])).unwrap();
    assert_eq!(kinds(&mut server), [answer::ACK]);
    assert!(server.closing());
}

#[test]
fn what_was_agreed_before_tls_is_forgotten() {
    for tls in [Tls::Offered, Tls::Required] {
        let mut server = server(tls);
        if tls == Tls::Offered {
            let before = [opt(option::STRUCTURED_REPLY, &[]), sets_contexts()].concat();
            feed(&mut server, &export(), &before).unwrap();
            drain(&mut server);
        }
        feed(&mut server, &export(), &opt(option::STARTTLS, &[])).unwrap();
        assert!(server.begins_tls());
        assert_eq!(kinds(&mut server), [answer::ACK]);
        assert!(server.poll().unwrap().is_none(), "it waits for TLS");
        server.secured();
        feed(&mut server, &export(), &[sets_contexts(), go()].concat()).unwrap();
        let kinds = kinds(&mut server);
        assert_eq!(kinds[0], answer::ERR_INVALID, "structured replies were forgotten");
        assert_eq!(kinds.last(), Some(&answer::ACK));
        assert!(server.opened().is_some());
    }
}

#[test]
fn what_is_pipelined_behind_starttls_is_not_obeyed() {
    for behind in [go(), opt(option::LIST, &[]), vec![0], magic::OPTION.to_be_bytes().to_vec()] {
        let mut server = server(Tls::Offered);
        let bytes = [opt(option::STARTTLS, &[]), behind].concat();
        let refused = feed(&mut server, &export(), &bytes);
        assert_eq!(refused.unwrap_err(), ProtocolError::BehindStartTls);
        assert!(server.opened().is_none());
        assert!(server.poll().is_err(), "and it stays so");
    }
}

#[test]
fn tls_is_begun_once_and_only_where_there_is_any() {
    let mut off = server(Tls::Off);
    feed(&mut off, &export(), &opt(option::STARTTLS, &[])).unwrap();
    assert_eq!(kinds(&mut off), [answer::ERR_UNSUP]);
    off.secured();
    let mut offered = server(Tls::Offered);
    feed(&mut offered, &export(), &opt(option::STARTTLS, &[7])).unwrap();
    assert_eq!(kinds(&mut offered), [answer::ERR_INVALID], "it takes no data");
    feed(&mut offered, &export(), &opt(option::STARTTLS, &[])).unwrap();
    offered.secured();
    feed(&mut offered, &export(), &opt(option::STARTTLS, &[])).unwrap();
    assert_eq!(kinds(&mut offered), [answer::ACK, answer::ERR_INVALID]);
}

#[test]
fn who_has_not_proved_who_it_is_is_told_that_tls_would_do() {
    let forbidden = |tls| {
        let mut server = server(tls);
        if tls == Tls::Required {
            feed(&mut server, &export(), &opt(option::STARTTLS, &[])).unwrap();
            server.secured();
        }
        drain(&mut server);
        let bytes = go();
        server.space()[..bytes.len()].copy_from_slice(&bytes);
        server.filled(bytes.len());
        assert!(matches!(server.poll(), Ok(Some(Event::Open { .. }))));
        server.forbid_without_tls("it serves known hosts".into());
        kinds(&mut server)
    };
    assert_eq!(forbidden(Tls::Offered), [answer::ERR_TLS_REQD]);
    assert_eq!(forbidden(Tls::Off), [answer::ERR_POLICY]);
    assert_eq!(forbidden(Tls::Required), [answer::ERR_POLICY], "it has TLS");
}
