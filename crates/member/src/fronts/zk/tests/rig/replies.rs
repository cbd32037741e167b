//! Turns a client's replies and events into text, one line each.

use zk::ErrorCode;
use zk::frame;
use zk::jute::JuteReader;
use zk::request::opcode;
use zk::response::{ConnectResponse, ReplyHeader, decode_stat};

use super::Rig;
use super::client::{Client, Form};

impl Rig {
    pub(super) fn read_frames(&mut self, number: u32) {
        loop {
            let client = self.clients.get_mut(&number).unwrap();
            let word = client.greeting && client.incoming.first().is_some_and(|byte| *byte != 0);
            if word {
                let text = core::mem::take(&mut client.incoming);
                let text = String::from_utf8(text).unwrap();
                self.log.push(format!("c{number}: says {}", text.trim_end()));
                return;
            }
            let Some((body, rest)) = frame::split(&client.incoming).unwrap() else { return };
            let (body, rest) = (body.to_vec(), rest.to_vec());
            client.incoming = rest;
            let text = if core::mem::take(&mut client.greeting) {
                self.connected_text(number, &body)
            } else {
                client.reply_text(&body)
            };
            self.log.push(format!("c{number}: {text}"));
        }
    }

    fn connected_text(&mut self, number: u32, frame: &[u8]) -> String {
        let response = ConnectResponse::decode(frame).unwrap();
        let byte = match response.read_only {
            Some(true) => ", for reads",
            Some(false) => "",
            None => ", without the byte",
        };
        if response.session == 0 {
            assert_eq!((response.timeout_ms, response.password), (0, [0; 16]));
            return format!("refused{byte}");
        }
        self.client(number).session = (response.session, response.password.to_vec());
        let at = self.sessions.iter().position(|session| *session == response.session);
        let at = at.unwrap_or_else(|| {
            self.sessions.push(response.session);
            self.sessions.len() - 1
        });
        let name = (b'A' + at as u8) as char;
        format!("connected as {name} for {}{byte}", response.timeout_ms)
    }
}

impl Client {
    fn reply_text(&mut self, frame: &[u8]) -> String {
        let mut reader = JuteReader::new(frame);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        if header.xid == zk::request::XID_EVENT {
            self.event_count += 1;
            let kind = match reader.int().unwrap() {
                1 => "created",
                2 => "deleted",
                3 => "changed",
                4 => "children",
                other => panic!("event type {other}"),
            };
            assert_eq!(reader.int(), Ok(3));
            let path = shorten(reader.text().unwrap());
            if header.zxid > 0 {
                assert!(header.zxid >= self.last_zxid, "the zxid of an event fell");
            }
            return format!("event {kind} {path} @{}", header.zxid);
        }
        self.reply_count += 1;
        let sent = self.sent.pop_front().expect("a reply has a request");
        assert_eq!(header.xid, sent.xid, "replies come in the order of the requests");
        // Auth packets are answered with zxid 0, unknown operations with -1.
        if header.zxid > 0 {
            assert!(header.zxid >= self.last_zxid, "the zxid of a reply fell");
            self.last_zxid = header.zxid;
        }
        let multi_refused = matches!(sent.form, Form::Multi);
        if matches!(sent.form, Form::Sasl) && reader.remaining() > 0 {
            let token = reader.buffer().unwrap().map(<[u8]>::to_vec);
            let text = match &token {
                None if header.error == ErrorCode::OK => "no token",
                None => header.error.name(),
                Some(token) if token.starts_with(b"rspauth=") => "proved",
                Some(_) => "challenge",
            };
            self.challenge = token.unwrap_or_default();
            return format!("{} -> {text} @{}", shorten(&sent.text), header.zxid);
        }
        let body = match header.error {
            ErrorCode::OK => body_text(&sent.form, &mut reader),
            error if multi_refused && reader.remaining() > 0 => {
                format!("{}: {}", error.name(), body_text(&sent.form, &mut reader))
            }
            error => error.name().to_string(),
        };
        assert_eq!(reader.remaining(), 0);
        let space = if body.is_empty() { "" } else { " " };
        format!("{} ->{space}{body} @{}", shorten(&sent.text), header.zxid)
    }
}

/// Shortens a long text to its beginning and its length.
fn shorten(text: &str) -> String {
    match text.len() {
        0..=200 => text.to_string(),
        length => format!("{}...{length}", &text[..20]),
    }
}

fn body_text(form: &Form, reader: &mut JuteReader<'_>) -> String {
    let stat = |reader: &mut JuteReader<'_>| {
        let stat = decode_stat(reader).unwrap();
        format!("v{}", stat.version)
    };
    match form {
        Form::Path => shorten(reader.text().unwrap()),
        Form::PathAndStat => {
            let path = reader.text().unwrap().to_string();
            format!("{path} {}", stat(reader))
        }
        Form::Stat => stat(reader),
        Form::Data => {
            let data = String::from_utf8(reader.buffer().unwrap().unwrap_or(b"null").to_vec());
            format!("{} {}", shorten(&data.unwrap()).replace('\n', " / "), stat(reader))
        }
        Form::Children { stat: with_stat } => {
            let mut names: Vec<&str> = reader.texts().unwrap();
            names.sort_unstable();
            let text = format!("[{}]", names.join(" "));
            if *with_stat { format!("{text} {}", stat(reader)) } else { text }
        }
        Form::Acl => {
            let mut entries = Vec::new();
            for _ in 0..reader.count(12).unwrap() {
                let perms = reader.int().unwrap();
                let (scheme, id) = (reader.text().unwrap(), reader.text().unwrap());
                entries.push(format!("{scheme}:{id}:{perms}"));
            }
            format!("{} {}", entries.join(","), stat(reader))
        }
        Form::Error => {
            assert_eq!(reader.int(), Ok(0));
            String::new()
        }
        Form::Identities => {
            let count = reader.count(8).unwrap();
            let mut one = || format!("{}:{}", reader.text().unwrap(), reader.text().unwrap());
            (0..count).map(|_| one()).collect::<Vec<_>>().join(" ")
        }
        Form::Bytes => {
            let bytes = (0..reader.remaining()).map(|_| reader.byte().unwrap());
            bytes.map(|byte| format!("{byte:02x}")).collect()
        }
        Form::Number => reader.int().unwrap().to_string(),
        Form::Nothing | Form::Sasl | Form::Closing => String::new(),
        Form::Multi => multi_text(reader),
    }
}

fn multi_text(reader: &mut JuteReader<'_>) -> String {
    let mut results = Vec::new();
    loop {
        let op = reader.int().unwrap();
        let done = reader.bool().unwrap();
        let error = reader.int().unwrap();
        if done {
            return results.join(", ");
        }
        let form = match op {
            opcode::ERROR => {
                assert_eq!(reader.int(), Ok(error));
                results.push(ErrorCode(error).name().to_string());
                continue;
            }
            opcode::CREATE => Form::Path,
            opcode::CREATE2 => Form::PathAndStat,
            opcode::SET_DATA => Form::Stat,
            opcode::GET_DATA => Form::Data,
            opcode::GET_CHILDREN => Form::Children { stat: false },
            opcode::DELETE | opcode::CHECK => Form::Nothing,
            other => panic!("result of operation {other}"),
        };
        results.push(body_text(&form, reader));
    }
}
