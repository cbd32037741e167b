//! Sends the same SASL exchanges and the same ACLs to the real server and to ours, and compares the
//! answers.

use std::net::SocketAddr;

use super::*;
use crate::client::Answer;
use crate::server::RealServer;

/// A JAAS file with names and passwords that are hard to write.
const ODD_JAAS: &str = "Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super=\"of all sasl users\" user_bob=bobsecret // and nobody else
    \"user_été\"=\"p\u{e2}ss\" \"user_日本\"=\"パス\" \"user_a \\\"b\\\"\\\\\"=\"\\101 \\t\" user_empty=\"\"
    \"user_a@REALM\"=x \"user_a/b\"=y \"user_a/b@REALM\"=z;
};
";

const ODD_USERS: [(&str, &str); 9] = [
    ("super", "of all sasl users"),
    ("bob", "bobsecret"),
    ("été", "pâss"),
    ("日本", "パス"),
    ("a \"b\"\\", "A \t"),
    ("empty", ""),
    ("a@REALM", "x"),
    ("a/b", "y"),
    ("a/b@REALM", "z"),
];

/// Texts that are appended to a good response.
const MORE: [&str; 16] = [
    "",
    ",",
    " , ",
    ",unknown=1,unknown=2",
    " unknown=1",
    ",unknown",
    ",unknown=",
    ",username=bob",
    ",USERNAME=bob",
    ",cipher=rc4",
    ",nonce-count=1",
    ",nonce-count=2",
    ",auth-param=1,auth-param=1",
    ",authzid=bob",
    ",a,b=c",
    ",a=\"b",
];

/// Parts of a good response, each with the text that replaces it.
const INSTEAD: [(&str, &str); 18] = [
    ("charset=utf-8,", ""),
    ("charset=utf-8", "charset=UTF-8"),
    ("charset=utf-8", "CHARSET=utf-8"),
    ("nc=00000001", "nc=00000002"),
    ("maxbuf=65536", "maxbuf=-1"),
    (",maxbuf=65536", ""),
    (",qop=auth", ""),
    ("qop=auth", "qop=auth-int"),
    ("username=\"bob\"", "username=bob"),
    ("username=\"bob\"", "username=\"\\b\\o\\b\""),
    ("username=\"bob\"", "user=\"bob\""),
    ("realm=\"zk-sasl-md5\"", "realm=\"other\""),
    ("realm=\"zk-sasl-md5\",", ""),
    ("cnonce=\"cnonce\"", "cnonce=\"other\""),
    ("digest-uri=\"zookeeper/zk-sasl-md5\"", "digest-uri=\"ZooKeeper/zk-sasl-md5\""),
    ("digest-uri=\"zookeeper/zk-sasl-md5\",", ""),
    ("response=", "answer="),
    (",nonce=\"", ",nonce=\"A"),
];

/// A function that makes the client's next token from the server's last one.
type Token<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

fn start_ours(name: &str, lines: &[&str]) -> Server {
    let folder = jaas_folder(name, ODD_JAAS, "");
    Server::start_in(folder, &[&[PROVIDER], lines].concat())
}

fn start_real(name: &str, lines: &[&str]) -> RealServer {
    let folder = jaas_folder(name, ODD_JAAS, "");
    RealServer::start_in(folder, &[&[PROVIDER], lines].concat())
}

/// Sends `tokens`, each made from the server's last token. Returns a line for each answer, with its
/// error and the kind of its token, and at the end a line with the client's identities, or the line
/// "ended" if the connection ended.
fn tell(address: SocketAddr, tokens: &[Token<'_>]) -> Vec<String> {
    let mut client = Client::open(address, TIMEOUT_MS);
    let mut told = Vec::new();
    let mut last = Vec::new();
    for token in tokens {
        let Some(answer) = client.try_call(&Request::Sasl { token: &token(&last) }) else {
            told.push("ended".to_string());
            return told;
        };
        let found = JuteReader::new(&answer.body).buffer().unwrap().map(<[u8]>::to_vec);
        told.push(format!(
            "zxid {} error {} {}",
            answer.header.zxid,
            answer.header.error.0,
            kind(&found)
        ));
        last = found.unwrap_or_default();
    }
    told.push(client.try_call(&Request::WhoAmI).map_or("ended".to_string(), |answer| who(&answer)));
    told
}

/// The identities of a client, sorted, because the real server has another order.
fn who(answer: &Answer) -> String {
    if answer.header.error != ErrorCode::OK {
        return answer.header.error.name().to_string();
    }
    let mut reader = JuteReader::new(&answer.body);
    let count = reader.count(8).unwrap();
    let mut one = || format!("{}:{}", reader.text().unwrap(), reader.text().unwrap());
    let mut all: Vec<String> = (0..count).map(|_| one()).collect();
    all.sort();
    all.join(" ")
}

/// A token without the parts that differ each time.
fn kind(token: &Option<Vec<u8>>) -> String {
    let Some(token) = token else { return "null".to_string() };
    let text = String::from_utf8(token.clone()).unwrap();
    match text.split_once("nonce=\"") {
        Some((before, rest)) => {
            let (nonce, behind) = rest.split_once('"').unwrap();
            format!("{before}nonce of {}{behind}", nonce.len())
        }
        None => text.split('=').next().unwrap_or_default().to_string(),
    }
}

fn good(challenge: &[u8]) -> String {
    String::from_utf8(zk::sasl::respond(challenge, "bob", "bobsecret", "cnonce").unwrap()).unwrap()
}

fn check(sides: [SocketAddr; 2], what: &str, tokens: &[Token<'_>]) {
    let [real, ours] = sides.map(|address| tell(address, tokens));
    assert_eq!(real, ours, "{what}");
}

#[test]
fn exchanges_end_as_on_the_real_server() {
    let settings = ["", "allowSaslFailedClients=true", "sessionRequireClientSASLAuth=true"];
    for (at, setting) in settings.into_iter().enumerate() {
        let lines = Some(setting).filter(|setting| !setting.is_empty());
        let lines: Vec<&str> = lines.into_iter().collect();
        let real = start_real(&format!("sasl-alike-real-{at}"), &lines);
        let ours = start_ours(&format!("sasl-alike-{at}"), &lines);
        let sides = [real.address(), ours.address()];
        let check = |what: &str, tokens: &[Token<'_>]| {
            check(sides, &format!("{setting} {what}"), tokens);
        };
        let ask = |_: &[u8]| Vec::new();
        for (user, password) in ODD_USERS {
            for password in [password, "wrong"] {
                let respond = |challenge: &[u8]| {
                    zk::sasl::respond(challenge, user, password, "cnonce").unwrap()
                };
                check(&format!("{user}:{password}"), &[&ask, &respond]);
            }
        }
        for more in MORE {
            let respond = |challenge: &[u8]| format!("{}{more}", good(challenge)).into_bytes();
            check(more, &[&ask, &respond]);
        }
        for (part, instead) in INSTEAD {
            let respond = |challenge: &[u8]| {
                let response = good(challenge);
                assert!(response.contains(part), "{response}");
                response.replacen(part, instead, 1).into_bytes()
            };
            check(instead, &[&ask, &respond]);
        }
        let long = |bytes: usize| move |_: &[u8]| vec![b'x'; bytes];
        let respond = |challenge: &[u8]| good(challenge).into_bytes();
        let garbage = |_: &[u8]| b"\xff\0=".to_vec();
        check("nobody", &[]);
        check("no response", &[&ask]);
        check("garbage", &[&garbage, &garbage, &garbage]);
        check("empty", &[&ask, &ask]);
        check("4096", &[&long(4096), &long(4096)]);
        check("4097", &[&long(4097), &ask]);
        check("4097 behind", &[&ask, &long(4097), &garbage]);
        check("again", &[&ask, &respond, &ask]);
        check("again after a failure", &[&ask, &garbage, &ask]);
    }
}

#[test]
fn ids_in_acls_are_taken_and_matched_as_on_the_real_server() {
    let real = start_real("sasl-ids-real", &[]);
    let ours = start_ours("sasl-ids", &[]);
    let sides = [real.address(), ours.address()];
    let sasl = [
        "bob", "", "a/b", "a@b", "a/b@c", "@", "/@", "a@b@c", "a/b/c", "a/b/c@d", "a@b/c", "x y",
        "a\nb@c", "@@", "/", "a@",
    ];
    let ip = [
        "127.0.0.1",
        "127.0.0.0/8",
        "127.0.0.0/33",
        "127.0.0.0/-1",
        "127.0.0.0/+8",
        "127.0.0.0/08",
        "127.0.0.0/",
        "127.0.0.0/8/9",
        "127.0.0.0/ 8",
        "0.0.0.0/0",
        "1.2.3",
        "1.2.3.4.5",
        "01.2.3.4",
        "127.0.0.01",
        "1.2.3.256",
        "+127.0.0.1",
        "-1.2.3.4",
        "",
        "localhost",
        "1.2.3.",
        "...",
        "126.0.0.0/7",
        "127.0.0.2/31",
        "127.0.0.3/30",
        "127.0.0.1/32",
        "::1",
        "::1/128",
        "::1/129",
        "::/0",
        "1::",
        "::",
        ":",
        ":::",
        "::::",
        ":1::",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "1:2:3:4:5:6:7::",
        "1:2:3:4::5:6:7:8",
        "::2:3:4:5:6:7:8",
        "::ffff:127.0.0.1",
        "0:0:0:0:0:ffff:7f00:1",
        "fe80::1%eth0",
        "12345::",
        "g::",
        "::+1",
        "::-1",
    ];
    let sasl = sasl.into_iter().map(|id| ("sasl", id));
    for (at, (scheme, id)) in sasl.chain(ip.into_iter().map(|id| ("ip", id))).enumerate() {
        let path = format!("/{at}");
        let [real, ours] = sides.map(|address| {
            let mut client = Client::open(address, TIMEOUT_MS);
            let made = create_for(&mut client, &path, scheme, id);
            (made, error_of_get(&mut client, &path))
        });
        assert_eq!(real, ours, "{scheme}:{id}");
    }
}
