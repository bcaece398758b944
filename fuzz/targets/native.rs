//! What a host of the native protocol may send, from its first byte on. The first byte of the input says in what
//! pieces the rest arrives: whatever they are, the same is done and answered.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_front::native::server::{Event, Server};
use weft_front::native::wire::{Answer, Code, Hello, Limits, NumberedRequest, Verb};
use weft_fuzz::Talk;

const LIMITS: Limits = Limits {
    request_bytes: 128 << 10,
    bytes_in_work: 1 << 20,
    requests_in_work: 64,
    ahead: 1000,
    after: 8,
};

fn talk(bytes: &[u8], most: usize) -> Talk {
    weft_fuzz::talk(Server::new(LIMITS), bytes, most, |server| {
        let event = server.poll().map_err(|e| e.to_string())?;
        Ok(event.map(|event| {
            let heard = format!("{event:?}");
            answer(server, event);
            heard
        }))
    })
}

fn answer(server: &mut Server, event: Event) {
    match event {
        Event::Hello(hello) => {
            same_again(&hello);
            match hello.volume.as_str() {
                "" => server.welcome(1 << 20, hello.resumes, true, false),
                "vol0" => server.welcome(1 << 20, hello.resumes, true, true),
                _ => server.turn_away(Code::NoVolume, "the volume does not exist".into()),
            }
        }
        Event::Request(request) => {
            check(&request);
            let data = match request.verb {
                Verb::Read => vec![Bytes::from(vec![0; request.length as usize])],
                _ => Vec::new(),
            };
            let (number, code, text) = (request.number, Code::Done, String::new());
            server.answer(Answer { number, code, because: None, text, data });
        }
        Event::Bye => {}
    }
}

/// What the machine lets through is within the limits.
fn check(request: &NumberedRequest) {
    assert!(request.after.len() <= LIMITS.after.into(), "{request:?}");
    assert!(request.number >= request.oldest.max(1), "{request:?}");
    if matches!(request.verb, Verb::Read | Verb::Write) {
        assert!(request.length <= LIMITS.request_bytes.into(), "{request:?}");
    }
    let data = if request.verb == Verb::Write { request.length } else { 0 };
    assert_eq!(request.data.len() as u64, data);
}

fn same_again(hello: &Hello) {
    let bytes = hello.encode();
    let (head, name) = bytes.split_first_chunk().expect("a whole header");
    let (again, len) = Hello::decode(head).expect("it was a hello before");
    assert_eq!(len, name.len());
    assert_eq!(Hello { volume: hello.volume.clone(), ..again }, *hello);
}

fuzz_target!(|input: &[u8]| {
    let Some((pieces, bytes)) = input.split_first() else { return };
    assert_eq!(talk(bytes, usize::MAX), talk(bytes, 1 + usize::from(*pieces)));
});
