//! Tests of what the three sources of a configuration (the file, the environment and the command
//! line) mean, alone and together.
#![allow(clippy::unwrap_used)]

mod cluster;
mod default_faces;
mod tls;

use super::listeners::FourLetterWords;
use super::monitoring::{AdminConfig, MetricsConfig};
use super::requests::JUTE_BYTES_MAX_MAX;
use super::*;

use member::fronts::zk::auth::{AuthConfig, EnsembleNames};
use member::limits::FRONT_COMMANDS_MAX;
use member::snapshot::log_rule::SnapshotLog;
use member::throttle::{ConnectionThrottleConfig, LargeRequestsConfig, ThrottleConfig, Weights};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const FILE: &str = "conf/zoo.cfg";

/// The sources of a configuration: files by name, environment, and command line.
#[derive(Default)]
struct World {
    files: BTreeMap<PathBuf, String>,
    env: Env,
    args: ServeArgs,
}

impl World {
    fn file(name: &str, text: &str) -> World {
        let mut world = World::default();
        world.args.config = Some(PathBuf::from(name));
        world.and(name, text)
    }

    fn zoo(text: &str) -> World {
        World::file(FILE, text)
    }

    fn toml(text: &str) -> World {
        World::file("quorate.toml", text)
    }

    fn and(mut self, name: &str, text: &str) -> World {
        self.files.insert(PathBuf::from(name), text.to_string());
        self
    }

    fn jvmflags(mut self, flags: &str) -> World {
        self.env.jvmflags = Some(flags.to_string());
        self
    }

    fn load(&self) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
        load_from(&self.args, &self.env, &|path| Ok(self.files.get(path).cloned()))
    }

    fn config(&self) -> ServeConfig {
        self.load().unwrap().0
    }

    fn warnings(&self) -> Vec<String> {
        let found = self.load().unwrap().1;
        found
            .iter()
            .filter(|w| w.severity == Severity::Warning)
            .map(|w| format!("{}: {}", w.place, w.key))
            .collect()
    }

    fn error(&self) -> String {
        let text = self.load().unwrap_err().to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }
}

/// A minimal `zoo.cfg` with these lines added, from line 3 on.
fn zoo(lines: &str) -> World {
    World::zoo(&format!("dataDir=/d\nclientPort=2181\n{lines}"))
}

fn flags(flags: &str) -> World {
    World::default().jvmflags(flags)
}

// ---- defaults

#[test]
fn without_anything_a_loopback_server_keeps_its_data_here() {
    let config = World::default().config();
    assert_eq!(config.storage.data_dir, Path::new("./quorate-data"));
    assert_eq!(config.listeners.zk_addr.clone().unwrap().to_string(), "127.0.0.1:2181");
    assert_eq!(config.sessions.tick_ms, 3_000);
    assert_eq!((config.sessions.timeout_ms_min, config.sessions.timeout_ms_max), (6_000, 60_000));
    assert_eq!(
        (config.listeners.connections_per_ip_max, config.listeners.connections_max),
        (60, 0)
    );
    assert_eq!((config.listeners.backlog, config.listeners.backlog_or_default()), (None, 1_024));
    assert_eq!(config.requests.jute_bytes_max, 0xf_ffff);
    assert_eq!(config.storage.disk.snapshot_commands, u64::MAX);
    assert_eq!(config.storage.disk.snapshot_log, SnapshotLog::ByState);
    assert_eq!(config.replicated, machine::Settings::default());
    assert!(allows(&config.listeners.four_letter_words, "srvr"));
    assert!(!allows(&config.listeners.four_letter_words, "ruok"));
    assert_eq!(config.auth, AuthConfig::default());
    assert!(World::default().load().unwrap().1.is_empty());
}

#[test]
fn the_sample_zoo_cfg_means_what_it_says_and_warns_of_nothing() {
    let world = World::zoo(
        "# The number of milliseconds of each tick\ntickTime=2000\ninitLimit=10\nsyncLimit=5\n\
         dataDir=/tmp/zookeeper\n# the port at which the clients will connect\n\
         clientPort=2181\n#maxClientCnxns=60\n#autopurge.snapRetainCount=3\n",
    );
    let config = world.config();
    assert_eq!(config.storage.data_dir, Path::new("/tmp/zookeeper"));
    assert_eq!(config.listeners.zk_addr, Some(ListenAddress { host: None, port: 2181 }));
    assert_eq!((config.sessions.timeout_ms_min, config.sessions.timeout_ms_max), (4_000, 40_000));
    assert_eq!(world.warnings(), Vec::<String>::new());
    assert_eq!(config.source.file.as_deref(), Some(FILE));
}

#[test]
fn the_container_images_zoo_cfg_finds_its_port_in_the_server_line() {
    let world = World::zoo(
        "dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n\
         autopurge.snapRetainCount=3\nautopurge.purgeInterval=0\nmaxClientCnxns=60\n\
         standaloneEnabled=true\nadmin.enableServer=true\n\
         server.1=localhost:2888:3888;2181\n",
    )
    .and("/data/myid", "1\n");
    let config = world.config();
    assert_eq!(config.listeners.zk_addr, Some(ListenAddress { host: None, port: 2181 }));
    assert_eq!(config.storage.log_dir.as_deref(), Some(Path::new("/datalog")));
    assert_eq!(config.my_id, Some(1));
    assert_eq!(config.cluster, None);
    assert_eq!(config.monitoring.admin.as_ref().map(|admin| admin.addr.port), Some(8080));
    assert_eq!(
        world.warnings(),
        ["conf/zoo.cfg:6: autopurge.snapRetainCount", "conf/zoo.cfg:7: autopurge.purgeInterval",]
    );
}

#[test]
fn the_log_may_lie_elsewhere() {
    let log_dir = |world: World| world.config().storage.log_dir;
    assert_eq!(log_dir(zoo("dataLogDir=/log")).as_deref(), Some(Path::new("/log")));
    assert_eq!(log_dir(World::toml("log_dir = \"/log\"")).as_deref(), Some(Path::new("/log")));
    assert_eq!(log_dir(zoo("dataLogDir=/d")), None);
    assert_eq!(zoo("dataLogDir=/log").warnings(), Vec::<String>::new());
}

#[test]
fn what_is_read_and_not_built_yet_is_warned_of() {
    let check = |world: World, expected: &[&str]| assert_eq!(world.warnings(), expected);
    check(zoo("clientTcpKeepAlive=true"), &[]);
    check(zoo("ensembleAuthName=a"), &["conf/zoo.cfg: ensembleAuthName"]);
    check(zoo("enforce.auth.enabled=true\nenforce.auth.schemes=digest"), &[]);
    check(zoo("enforceQuota=true\nreconfigEnabled=false"), &[]);
    check(zoo("reconfigEnabled=true"), &["conf/zoo.cfg:3: reconfigEnabled"]);
    check(World::toml("reconfig_enabled = true"), &["quorate.toml:1: reconfig_enabled"]);
    check(zoo("reconfigEnabled=true\nquorate.levelMax=5"), &[]);
    check(zoo("extendedTypesEnabled=true"), &[]);
    check(zoo("clientTcpKeepAlive=false"), &[]);
    check(World::toml("enforce_auth_schemes = [\"ip\"]"), &[]);
    check(flags("-Dzookeeper.ensembleAuthName=a"), &["configuration: ensembleAuthName"]);
}

// ---- the syntax of a properties file

#[test]
fn an_error_of_the_syntax_names_its_line() {
    assert!(World::zoo("a=\\uzzzz").error().starts_with("conf/zoo.cfg:1: "));
}

#[test]
fn of_a_repeated_key_the_last_counts() {
    let world = zoo("tickTime=1\ntickTime=7\n");
    assert_eq!(world.config().sessions.tick_ms, 7);
    assert_eq!(world.warnings(), ["conf/zoo.cfg:3: tickTime"]);
}

// ---- keys

#[test]
fn the_session_limits_follow_the_tick_unless_set() {
    let limits = |lines: &str| {
        let config = zoo(lines).config();
        (config.sessions.timeout_ms_min, config.sessions.timeout_ms_max)
    };
    assert_eq!(limits("tickTime=500"), (1_000, 10_000));
    assert_eq!(limits("minSessionTimeout=7\nmaxSessionTimeout=8"), (7, 8));
    assert_eq!(limits("minSessionTimeout=-1\nmaxSessionTimeout=-1"), (6_000, 60_000));
    assert_eq!(limits("tickTime=2147483647"), (i32::MAX as u32, i32::MAX as u32));
    assert_eq!(
        zoo("maxSessionTimeout=5999").error(),
        "conf/zoo.cfg:3: the smallest session timeout, 6000 ms, is above the largest, 5999 ms"
    );
}

#[test]
fn zero_and_less_mean_no_limit_on_connections() {
    assert_eq!(zoo("maxClientCnxns=0").config().listeners.connections_per_ip_max, 0);
    assert_eq!(zoo("maxClientCnxns=-1").config().listeners.connections_per_ip_max, 0);
    assert_eq!(zoo("maxCnxns=-5").config().listeners.connections_max, 0);
    assert_eq!(zoo("maxCnxns=5").config().listeners.connections_max, 5);
    assert_eq!(zoo("clientPortListenBacklog=-1").config().listeners.backlog, None);
    assert_eq!(zoo("clientPortListenBacklog=9").config().listeners.backlog, Some(9));
}

#[test]
fn the_client_address_joins_two_keys() {
    let address = |text: &str| World::zoo(text).config().listeners.zk_addr.unwrap().to_string();
    assert_eq!(address("dataDir=/d\nclientPort=1\nclientPortAddress=::1"), "[::1]:1");
    assert_eq!(address("dataDir=/d\nclientPort=1\nclientPortAddress=zk"), "zk:1");
    assert_eq!(address("dataDir=/d\nclientPort=1\nclientPortAddress=0.0.0.0"), "*:1");
    assert_eq!(
        World::zoo("dataDir=/d\nclientPortAddress=zk").error(),
        "conf/zoo.cfg:2: clientPortAddress is set but clientPort is not"
    );
    assert_eq!(World::zoo("dataDir=/d\n").error(), "conf/zoo.cfg: clientPort is not set");
    assert_eq!(World::zoo("clientPort=1\n").error(), "conf/zoo.cfg: dataDir is not set");
}

fn allows(words: &FourLetterWords, word: &str) -> bool {
    words.allowed().iter().any(|allowed| allowed == "*" || allowed == word)
}

#[test]
fn words_are_listed_or_all_and_srvr_is_always_there() {
    let words = |lines: &str| zoo(lines).config().listeners.four_letter_words;
    assert!(allows(&words("4lw.commands.whitelist=*"), "dump"));
    assert!(allows(&words("4lw.commands.whitelist=ruok, *"), "dump"));
    let some = words("4lw.commands.whitelist=ruok, mntr");
    assert!(allows(&some, "ruok") && allows(&some, "mntr") && allows(&some, "srvr"));
    assert!(!allows(&some, "dump"));
    assert!(!allows(&words("zookeeper.4lw.commands.whitelist=ruok"), "ruok"));
    let read_only = flags("-Dreadonlymode.enabled=true").config().listeners.four_letter_words;
    assert!(allows(&read_only, "isro"));
    assert!(!allows(&words("4lw.commands.whitelist="), "ruok"));
}

#[test]
fn outcomes_depend_on_replicated_settings_only() {
    let config = zoo("skipACL=yes\nextendedTypesEnabled=true\nenforceQuota=TRUE\n\
         reconfigEnabled=true\nDigestAuthenticationProvider.enabled=false\n\
         DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n\
         DigestAuthenticationProvider.digestAlg=sha-256\n")
    .config();
    assert_eq!(
        config.replicated,
        machine::Settings {
            skip_acl: true,
            digest_enabled: false,
            extended_types: true,
            enforce_quota: true,
            reconfig_enabled: true,
            super_digest: Some("super:D/InIHSb7yEEbrWz8b9l71RjZJU=".to_string()),
            digest_algorithm: "SHA-256".to_string(),
            ..machine::Settings::default()
        }
    );
}

/// ZooKeeper turns such a line into a property that it never reads. So the line must change nothing
/// here either: a file moved here from ZooKeeper must not open what was closed.
#[test]
fn lines_that_are_dead_in_zookeeper_are_warnings_and_change_nothing() {
    let plain = zoo("").config();
    for line in [
        "zookeeper.ssl.clientAuth=required",
        "zookeeper.ssl.clientAuth=none",
        "zookeeper.skipACL=yes",
        "zookeeper.DigestAuthenticationProvider.superDigest=super:x=",
        "zookeeper.jute.maxbuffer=1",
        "zookeeper.quorate.etcdAddr=0.0.0.0:2379",
        "jute.maxbuffer=x",
        "znode.container.checkIntervalMs=100",
        "znode.container.maxPerMinute=1",
        "znode.container.maxNeverUsedIntervalMs=1",
        "readonlymode.enabled=true",
        "java.security.auth.login.config=/nothing/there",
    ] {
        let world = zoo(line);
        let key = line.split_once('=').map_or("", |(key, _)| key);
        assert_eq!(world.warnings(), [format!("conf/zoo.cfg:3: {key}")]);
        let mut config = world.config();
        config.source = plain.source.clone();
        assert_eq!(config, plain, "{line}");
    }
    // The warning names the line to write instead, or the flag.
    let said = |line: &str| zoo(line).load().unwrap().1[0].message.clone();
    assert!(said("zookeeper.skipACL=yes").contains("write skipACL in the file"));
    assert!(said("zookeeper.jute.maxbuffer=1").contains("set -Djute.maxbuffer instead"));
    assert!(said("jute.maxbuffer=1").contains("set -Djute.maxbuffer instead"));
    // ZooKeeper reads this property with its prefix and without.
    assert_eq!(zoo("fsync.warningthresholdms=7").config().storage.fsync_warning_ms, 7);
    assert_eq!(flags("-Dfsync.warningthresholdms=7").config().storage.fsync_warning_ms, 7);
    // A flag with the prefix has no effect either if ZooKeeper reads the property without it.
    let dead = flags("-Dzookeeper.jute.maxbuffer=1 -Dzookeeper.readonlymode.enabled=true");
    assert_eq!(
        dead.warnings(),
        ["JVMFLAGS: zookeeper.jute.maxbuffer", "JVMFLAGS: zookeeper.readonlymode.enabled"]
    );
    assert_eq!(dead.config().requests.jute_bytes_max, plain.requests.jute_bytes_max);
}

#[test]
fn snapshot_triggers_have_a_floor_and_an_off() {
    assert_eq!(zoo("snapCount=5").config().storage.disk.snapshot_commands, 5);
    let low = zoo("snapCount=1");
    assert_eq!(low.config().storage.disk.snapshot_commands, 2);
    assert_eq!(low.warnings(), ["conf/zoo.cfg:3: snapCount"]);
    assert_eq!(
        zoo("snapSizeLimitInKb=2").config().storage.disk.snapshot_log,
        SnapshotLog::Bytes(2_048)
    );
    assert_eq!(
        zoo("snapSizeLimitInKb=-1").config().storage.disk.snapshot_log,
        SnapshotLog::Unbounded
    );
}

#[test]
fn the_largest_request_has_a_largest_value() {
    assert_eq!(flags("-Djute.maxbuffer=0x3fffff").config().requests.jute_bytes_max, 0x3f_ffff);
    let at = format!("-Djute.maxbuffer={JUTE_BYTES_MAX_MAX}");
    assert_eq!(flags(&at).warnings(), Vec::<String>::new());
    let above = flags(&format!("-Djute.maxbuffer={}", JUTE_BYTES_MAX_MAX + 1));
    assert_eq!(above.config().requests.jute_bytes_max, JUTE_BYTES_MAX_MAX);
    assert_eq!(above.warnings(), ["JVMFLAGS: jute.maxbuffer"]);
    assert!(flags("-Djute.maxbuffer=0").error().contains("is not between 1 and"));
}

#[test]
fn enforced_schemes_must_be_available() {
    let schemes = |lines: &str| zoo(lines).config().auth.enforced_schemes;
    let set = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(schemes("enforce.auth.schemes=digest"), set(&[]));
    assert_eq!(
        schemes("enforce.auth.enabled=true\nenforce.auth.schemes=digest, ip"),
        set(&["digest", "ip"])
    );
    let sasl = format!("sessionRequireClientSASLAuth=true\n{SASL_PROVIDER}");
    assert_eq!(schemes(&sasl), set(&["sasl"]));
    assert_eq!(zoo(&sasl).warnings(), ["conf/zoo.cfg: sasl"], "there are no users");
    let unavailable = zoo("sessionRequireClientSASLAuth=true").error();
    assert!(unavailable.contains("\"sasl\" is not available"), "{unavailable}");
    assert!(zoo("enforce.auth.enabled=true").error().contains("no scheme"));
    let unknown = zoo("enforce.auth.enabled=true\nenforce.auth.schemes=magic").error();
    assert!(unknown.contains("\"magic\""), "{unknown}");
}

#[test]
fn the_ensemble_scheme_takes_names() {
    let config = zoo("ensembleAuthName=one, two\n\
         authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider")
    .config();
    let names = |names: &[&str]| {
        let names = names.iter().map(|name| name.to_string()).collect();
        Some(EnsembleNames::These(names))
    };
    assert_eq!(config.auth.ensemble, names(&["one", "two"]));
    let any = "authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
    assert_eq!(zoo(any).config().auth.ensemble, Some(EnsembleNames::Any));
    assert_eq!(zoo("ensembleAuthName=one").config().auth.ensemble, None);
    let config = World::toml("ensemble_auth_names = [\"one\"]").config();
    assert_eq!(config.auth.ensemble, names(&["one"]));
}

// ---- SASL

const SASL_PROVIDER: &str =
    "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const JAAS_FLAG: &str = "-Djava.security.auth.login.config=/j.conf";
const JAAS: &str = "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  \
                    user_super=\"s\"\n  user_bob=\"b\";\n};\n\
                    Other { a.DigestLoginModule required user_eve=e; };\n";

#[test]
fn properties_in_a_jaas_file_are_put_in_and_masked() {
    let file = JAAS.replace("\"b\"", "\"${zk.pw}\"");
    let config = jaas("", &file, "-Dzk.pw=s3cret -Dmine=x").config();
    assert_eq!(config.auth.sasl_users.unwrap()["bob"], "s3cret");
    let shown = &config.source.system_properties;
    assert_eq!((shown["zk.pw"].as_str(), shown["mine"].as_str()), ("***", "x"));
    let error = jaas("", &file, "").error();
    assert!(error.contains("/j.conf:4: the property \"zk.pw\" is not set"), "{error}");
}

/// A `zoo.cfg` of a server whose SASL users are in the JAAS file `file`.
fn jaas(lines: &str, file: &str, more_flags: &str) -> World {
    zoo(lines).jvmflags(&format!("{JAAS_FLAG} {more_flags}")).and("/j.conf", file)
}

fn users(world: &World) -> Vec<String> {
    let users = world.config().auth.sasl_users.unwrap_or_default();
    users.iter().map(|(user, password)| format!("{user}:{password}")).collect()
}

#[test]
fn sasl_users_are_those_of_the_jaas_section() {
    let world = jaas(SASL_PROVIDER, JAAS, "");
    assert_eq!(users(&world), ["bob:b", "super:s"]);
    assert!(world.config().replicated.sasl_enabled);
    assert_eq!(world.warnings(), Vec::<String>::new());
    let flag = "-Dzookeeper.SASLAuthenticationProvider.superPassword=p";
    assert_eq!(users(&jaas("", JAAS, flag)), ["bob:b", "super:p"]);
    let other = "-Dzookeeper.sasl.serverconfig=Other";
    let flag = "-Dzookeeper.SASLAuthenticationProvider.superPassword=p";
    assert_eq!(users(&jaas("", JAAS, &format!("{other} {flag}"))), ["eve:e"]);
    assert_eq!(users(&jaas("sasl.serverconfig=Other", JAAS, "")), ["eve:e"]);
    for named in ["=/j.conf", "file:/j.conf", "=file:///j.conf"] {
        let flag = format!("-Djava.security.auth.login.config={named}");
        let world = zoo("").jvmflags(&flag).and("/j.conf", JAAS);
        assert_eq!(users(&world), ["bob:b", "super:s"], "{named}");
    }
}

#[test]
fn without_a_section_no_sasl_is_offered() {
    let offered = |world: World| world.config().auth.sasl_users.is_some();
    assert!(!offered(zoo(SASL_PROVIDER)));
    assert!(!offered(jaas("", "", "")));
    assert_eq!(jaas("", "", "").warnings(), Vec::<String>::new());
    assert!(!offered(jaas("sasl.serverconfig=Third", JAAS, "")));
    let third = jaas("sasl.serverconfig=Third", JAAS, "");
    assert_eq!(third.warnings(), ["/j.conf: java.security.auth.login.config"]);
    let nobody = jaas("", "Server { x.DigestLoginModule required username=bob; };", "");
    assert_eq!(nobody.config().auth.sasl_users, Some(BTreeMap::new()));
    assert_eq!(nobody.warnings(), ["/j.conf: java.security.auth.login.config"]);
}

#[test]
fn a_jaas_file_that_cannot_be_used_is_refused_by_line() {
    let complaint = |file: &str| jaas("", file, "").error();
    assert_eq!(
        complaint("Server {\n  x.DigestLoginModule required user_bob=1;\n};"),
        "/j.conf:2: the value of an option is expected and '1' found; what begins with it must be in \
         double quotes"
    );
    assert!(
        complaint("Server {\n\n com.sun.security.auth.module.Krb5LoginModule required; };")
            .starts_with("/j.conf:3: Krb5LoginModule: Kerberos is not served")
    );
    assert!(complaint("Server { a.Mine required; };").starts_with("/j.conf:1: Mine is not built"));
    assert_eq!(
        complaint("Server { x.DigestLoginModule required\n \"user_a@b@c\"=x; };"),
        "/j.conf:2: the user \"a@b@c\" is neither a plain nor a Kerberos name"
    );
    let missing = zoo("").jvmflags(JAAS_FLAG).error();
    assert_eq!(missing, "/j.conf: cannot be read: there is no such file");
    // A section that is not used only has to be well-formed.
    let krb5 = format!("{JAAS} Client {{ x.Krb5LoginModule required; }};");
    assert_eq!(users(&jaas("", &krb5, "")).len(), 2);
}

#[test]
fn sasl_properties_are_taken() {
    let world = jaas(
        "allowSaslFailedClients=true\nletAnySaslUserDoX=any\nsuperUser.2=eve\n\
         kerberos.removeHostFromPrincipal=true\njaasLoginRenew=3600000",
        JAAS,
        "-Dzookeeper.superUser=bob -Dzookeeper.sasl.clientconfig=Client",
    );
    assert_eq!(world.warnings(), Vec::<String>::new());
    let config = world.config();
    assert!(config.auth.sasl_failed_allowed);
    assert_eq!(config.replicated.sasl_any_user.as_deref(), Some("any"));
    let super_users: Vec<&str> = config.auth.sasl_super_users.iter().map(String::as_str).collect();
    assert_eq!(super_users, ["bob", "eve"]);
    let nothing = zoo("requireClientAuthScheme=sasl").warnings();
    assert_eq!(nothing, ["conf/zoo.cfg:3: requireClientAuthScheme"]);
}

#[test]
fn a_toml_file_names_sasl_users_itself_or_a_jaas_file() {
    let config = World::toml(
        "sasl_users = { bob = \"b\", \"a@B\" = \"\" }\nsuper_users = [\"bob\"]\n\
         sasl_failed_allowed = true\nenforce_auth_schemes = [\"sasl\"]",
    );
    assert_eq!(users(&config), ["a@B:", "bob:b"]);
    assert_eq!(config.warnings(), Vec::<String>::new());
    let config = config.config();
    assert!(config.replicated.sasl_enabled);
    assert!(config.auth.sasl_failed_allowed);
    assert!(config.auth.sasl_super_users.contains("bob"));
    let file = World::toml("jaas_file = \"/j.conf\"").and("/j.conf", JAAS);
    assert_eq!(users(&file), ["bob:b", "super:s"]);
    let both = World::toml("jaas_file = \"/j.conf\"\nsasl_users = { bob = \"b\" }");
    let both = both.and("/j.conf", JAAS).error();
    assert_eq!(both, "quorate.toml:2: sasl_users: a JAAS file names users, too");
    for (line, complaint) in [
        ("sasl_users = [\"bob\"]", "sasl_users: cannot be array; write it like { bob = "),
        ("sasl_users = { bob = 1 }", "sasl_users: cannot be"),
        ("sasl_users = { \"a@b@c\" = \"x\" }", "neither a plain nor a Kerberos name"),
    ] {
        let error = World::toml(line).error();
        assert!(error.starts_with("quorate.toml:1: ") && error.contains(complaint), "{error}");
    }
}

#[test]
fn the_filter_of_the_log_may_stand_in_the_file() {
    let filter = |world: World| world.config().logging.filter;
    assert_eq!(filter(zoo("")), None);
    assert_eq!(filter(zoo("quorate.log=warn")).as_deref(), Some("warn"));
    assert_eq!(
        filter(World::toml("log = \"info,node=debug\"")).as_deref(),
        Some("info,node=debug")
    );
    let error = zoo("quorate.log=info,=").error();
    assert!(error.starts_with("conf/zoo.cfg:3: quorate.log: \"info,=\" is no filter"), "{error}");
}

#[test]
fn a_data_directory_may_have_to_be_there() {
    let is_required = |world: World| world.config().storage.is_data_dir_required;
    assert!(!is_required(zoo("")));
    assert!(!is_required(zoo("datadir.autocreate=true")));
    assert!(is_required(zoo("datadir.autocreate=false")));
    assert!(is_required(zoo("").jvmflags("-Dzookeeper.datadir.autocreate=false")));
    assert!(is_required(World::toml("data_dir_create = false")));
}

#[test]
fn the_text_that_is_shown_of_a_file_has_no_secrets() {
    let world = World::toml("sasl_users = { bob = \"s3cret\" }\n");
    assert_eq!(world.config().source.initial_config, "sasl_users = { bob = \"***\" }\n");
    let world = zoo("ssl.keyStore.password=s3cret");
    let expected = "dataDir=/d\nclientPort=2181\nssl.keyStore.password=***\n";
    assert_eq!(world.config().source.initial_config, expected);
}

#[test]
fn what_is_not_built_or_unknown_is_a_warning_and_never_fatal() {
    for line in [
        "noSuchKey=1",
        "a line without meaning",
        "ssl.keyStore.location=/k.jks",
        "admin.forceHttps=true",
        "metricsProvider.className=org.example.Mine",
        "forceSync=no",
        "localSessionsEnabled=true",
        "authProvider.1=org.example.MyAuthenticationProvider",
        "group.1=1:2:3",
        "autopurge.purgeInterval=0",
        "autopurge.snapRetainCount=3",
        "autopurge.noSuchThing=3",
    ] {
        assert_eq!(zoo(line).warnings().len(), 1, "{line}");
    }
    for line in [
        "admin.enableServer=false",
        "forceSync=yes",
        "localSessionsEnabled=false",
        "peerType=participant",
        "preAllocSize=65536",
        "serverCnxnFactory=org.apache.zookeeper.server.NIOServerCnxnFactory",
        "authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider",
        "snapshot.trust.empty=true",
        "autopurge.purgeInterval=1",
        "maxInProcessingDeadWatchers=1000",
        "tcpKeepAlive=true",
        "datadir.autocreate=false",
    ] {
        assert_eq!(zoo(line).warnings(), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn a_malformed_value_names_file_line_and_key() {
    assert_eq!(
        zoo("\n# ticks\ntickTime=fast").error(),
        "conf/zoo.cfg:5: tickTime: \"fast\" is not a whole number"
    );
    for line in [
        "tickTime=0",
        "tickTime=-1",
        "tickTime=2147483648",
        "tickTime=0x10",
        "clientPort=65536",
        "clientPort=",
        "minSessionTimeout=-2",
        "maxClientCnxns=many",
        "skipACL=true",
        "extendedTypesEnabled=1",
        "reconfigEnabled=yes",
        "electionAlg=2",
        "peerType=boss",
        "snapCount=lots",
        "DigestAuthenticationProvider.superDigest=super",
        "DigestAuthenticationProvider.digestAlg=ROT13",
        "dataDir=",
        "server.x=h:1:2",
        "server.1=h:1",
        "server.1=h:1:1",
        "server.1=h:1:2:boss",
        "server.1=h:1:2:observer:5",
        "server.1=h:1:2;x",
        "server.1=h:1:2|h:3:4",
    ] {
        let error = zoo(line).error();
        assert!(error.starts_with("conf/zoo.cfg:3: "), "{line}: {error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let mut world = World::default();
    world.args.config_file = Some(PathBuf::from("missing.cfg"));
    assert_eq!(world.error(), "missing.cfg: cannot be read: there is no such file");
}

// ---- ensembles

#[test]
fn the_own_server_line_names_the_client_port() {
    let world =
        |myid: &str| World::zoo("dataDir=/d\nserver.1=h:1:2;127.0.0.1:2182").and("/d/myid", myid);
    assert_eq!(world("1").config().listeners.zk_addr.unwrap().to_string(), "127.0.0.1:2182");
    assert!(world("2").error().contains("clientPort is not set"));
    assert_eq!(world("one").error(), "/d/myid:1: \"one\" is not the number of a server");
    let disagree = zoo("server.1=h:1:2;2182").and("/d/myid", "1").error();
    assert!(disagree.contains("clients connect to *:2182"), "{disagree}");
    assert_eq!(zoo("server.1=h:1:2;2181").and("/d/myid", "1").config().my_id, Some(1));
}

#[test]
fn a_dynamic_file_holds_servers_only() {
    let world = |text: &str| zoo("dynamicConfigFile=/c/dyn").and("/c/dyn", text);
    assert_eq!(world("server.1=h:1:2;2181").and("/d/myid", "1").config().my_id, Some(1));
    assert_eq!(world("tickTime=1").error(), "/c/dyn:1: tickTime: is not a key of a dynamic file");
    assert!(world("version=1").error().starts_with("/c/dyn:1: version"));
    assert!(zoo("dynamicConfigFile=/c/dyn").error().contains("/c/dyn: cannot be read"));
    let both = zoo("dynamicConfigFile=/c/dyn\nserver.1=h:1:2").and("/c/dyn", "").error();
    assert!(both.contains("belong into that file"), "{both}");
}

// ---- properties of the environment

#[test]
fn properties_set_what_the_command_line_of_java_sets() {
    let world = flags(
        "-Xmx1g -Dzookeeper.skipACL=yes -Dzookeeper.snapCount=9 -Dreadonlymode.enabled=true \
         -Dznode.container.checkIntervalMs=250 -Djava.awt.headless=true -DskipACL=no \
         -Dzookeeper.noSuch=1 -Dzookeeper.DigestAuthenticationProvider.superDigest=super:x=",
    );
    let config = world.config();
    assert!(config.replicated.skip_acl);
    assert_eq!(config.storage.disk.snapshot_commands, 9);
    assert_eq!(config.container.check_interval_ms, 250);
    assert_eq!(config.replicated.super_digest.as_deref(), Some("super:x="));
    assert_eq!(world.warnings(), Vec::<String>::new());
    let notes = world.load().unwrap().1;
    let notes: Vec<_> = notes.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(notes, ["java.awt.headless", "skipACL", "zookeeper.noSuch"]);
    assert_eq!(
        flags("-Dzookeeper.snapCount=x").error(),
        "JVMFLAGS: zookeeper.snapCount: \"x\" is not a whole number"
    );
}

#[test]
fn options_win_over_the_file_the_file_over_properties_and_the_last_property() {
    let world = zoo("snapCount=5").jvmflags("-Dzookeeper.snapCount=6 -Dzookeeper.maxCnxns=7");
    assert_eq!(world.config().storage.disk.snapshot_commands, 5);
    assert_eq!(world.config().listeners.connections_max, 7);
    let mut both = flags("-Dzookeeper.snapCount=8");
    both.env.server_jvmflags = Some("-Dzookeeper.snapCount=7".to_string());
    assert_eq!(both.config().storage.disk.snapshot_commands, 8);
    let mut world = zoo("dataDir=/other");
    world.args.data_dir = Some(PathBuf::from("/mine"));
    world.args.zk_addr = Some("127.0.0.1:9".parse().unwrap());
    let config = world.config();
    assert_eq!(config.storage.data_dir, Path::new("/mine"));
    assert_eq!(config.listeners.zk_addr.unwrap().to_string(), "127.0.0.1:9");
    let mut bare = World::zoo("tickTime=5");
    bare.args.data_dir = Some(PathBuf::from("/mine"));
    bare.args.zk_addr = Some("127.0.0.1:9".parse().unwrap());
    assert_eq!(bare.config().sessions.tick_ms, 5);
}

// ---- quorate.toml

#[test]
fn the_format_is_told_by_the_content() {
    let check = |name: &str, text: &str, expected: bool| {
        assert_eq!(toml_file::recognises(Path::new(name), text).0, expected, "{name}: {text:?}");
    };
    check("a.cfg", "data_dir = \"/d\"", true);
    check("a.cfg", "# comment\n\n[cluster]\n", true);
    check("a.cfg", "[[ cluster ]]", true);
    check("a.cfg", "sasl_users.bob = \"x\"", true);
    // Published files of ZooKeeper: one has a header (which is a key there), one a value in quotes.
    check("a.cfg", "[zookeeper]\ndataDir=/d\n", false);
    check("a.cfg", "dataDir=\"/d\"\ntickTime=1", false);
    check("a.cfg", "audit.enable=true", false);
    check("a.cfg", "# text\rtickTime=1", false);
    check("a.cfg", "[server]", false);
    check("a.toml", "[server]", true);
    check("a.cfg", "unknown = \"x\"", true);
    check("a.cfg", "tick = 2000", true);
    check("a.toml", "tickTime=2000\n", false);
    check("a.toml", "4lw.commands.whitelist=*", false);
    check("a.toml", "dataDir /d", false);
    check("a.toml", "", true);
    check("a.cfg", "", false);
    check("a.cfg", "# only a comment", false);
}

#[test]
fn an_error_says_which_format_was_read_where_the_name_says_otherwise() {
    let error = World::zoo("[cluster]\ndataDir /d\n").error();
    assert!(error.ends_with("(read as TOML: line 1 has cluster)"), "{error}");
    let error = World::toml("dataDir=/d\ntickTime=x").error();
    assert!(error.ends_with("(read as a zoo.cfg: line 1 has dataDir)"), "{error}");
    assert!(zoo("tickTime=x").error().ends_with("is not a whole number"));
}

/// As in ZooKeeper: an empty address means loopback, and empty parts at the end are dropped.
#[test]
fn an_empty_client_address_and_a_colon_behind_the_ports_are_read_as_by_java() {
    let config = zoo("clientPortAddress=").config();
    assert_eq!(config.listeners.zk_addr.unwrap().to_string(), "127.0.0.1:2181");
    let text = "initLimit=1\nsyncLimit=1\nserver.1=a:1:2:\nserver.2=b:1:2::\nserver.3=c:1:2\n";
    let mut world = zoo(text);
    world = world.and("/d/myid", "1\n");
    assert_eq!(world.config().cluster.unwrap().servers.len(), 3);
}

#[test]
fn every_key_of_the_toml_file_takes_the_form_it_is_described_with() {
    for (key, form) in toml_file::KEYS {
        let form = form.split(", or").next().unwrap_or(form);
        let stores = match *key {
            "zk_tls_addr" | "etcd_tls_addr" | "chunk_tls_addr" => {
                "tls_key_store = \"/k\"\ntls_client_auth = \"none\"\n"
            }
            _ => "",
        };
        let mut world = World::toml(&format!("{key} = {form}\n{stores}"));
        world = world.and("/etc/quorate/jaas.conf", "");
        world.args.data_dir = Some(PathBuf::from("/d"));
        assert!(world.load().is_ok(), "{key} = {form}: {:?}", world.load());
    }
}

#[test]
fn a_toml_file_sets_what_it_names() {
    let config = World::toml(
        "data_dir = \"/d\"\nzk_addr = \"*:2182\"\ntick = \"1s\"\nsession_timeout_max = \"1m\"\n\
         four_letter_words = [\"ruok\"]\njute_bytes_max = \"2MiB\"\nsnapshot_log_bytes = 0\n\
         skip_acl = true\nconnections_per_ip_max = 0x10\n",
    )
    .config();
    assert_eq!(config.storage.data_dir, Path::new("/d"));
    assert_eq!(config.listeners.zk_addr, Some(ListenAddress { host: None, port: 2182 }));
    assert_eq!((config.sessions.timeout_ms_min, config.sessions.timeout_ms_max), (2_000, 60_000));
    assert!(allows(&config.listeners.four_letter_words, "ruok"));
    assert_eq!(config.requests.jute_bytes_max, 2 << 20);
    assert_eq!(config.storage.disk.snapshot_log, SnapshotLog::Unbounded);
    assert!(config.replicated.skip_acl);
    assert_eq!(config.listeners.connections_per_ip_max, 16);
    assert_eq!(World::toml("").config().listeners.zk_addr.unwrap().port, 2181);
}

#[test]
fn a_toml_file_is_strict_and_names_the_line() {
    for (line, complaint) in [
        ("tick_time = \"2s\"", "tick_time: is not a key of this file"),
        ("tick = 2", "tick: cannot be integer; write it like \"3s\""),
        ("tick = \"2\"", "tick: \"2\" is not a time; write it like 200ms, 30s or 5m"),
        ("tick = \"0s\"", "tick: must be above 0"),
        ("data_dir = \"\"", "data_dir: cannot be empty; write it like \"/var/lib/quorate\""),
        ("zk_addr = \"here\"", "is not an address"),
        ("connections_max = -1", "is not between 0 and"),
        ("jute_bytes_max = \"1TiB\"", "is not a size"),
        ("jute_bytes_max = \"1GiB\"", "is not between 1 and"),
        ("snapshot_command_count = 1", "is below the least"),
        ("four_letter_words = \"ruok\"", "cannot be string"),
        ("four_letter_words = [1]", "cannot be"),
        ("digest_algorithm = \"ROT13\"", "is not a digest algorithm"),
        ("skip_acl = \"yes\"", "cannot be string"),
        ("skip_acl = ", "quorate.toml:2: "),
        ("enforce_auth_schemes = [\"magic\"]", "\"magic\""),
    ] {
        let error = World::toml(&format!("# first\n{line}\n")).error();
        assert!(error.contains(complaint), "{line}: {error}");
        assert!(error.starts_with("quorate.toml"), "{line}: {error}");
    }
}

// ---- units

#[test]
fn sizes_have_powers_of_two_and_of_ten() {
    for (text, expected) in [
        ("0", Some(0)),
        ("512", Some(512)),
        ("512B", Some(512)),
        ("1KiB", Some(1 << 10)),
        ("64MiB", Some(64 << 20)),
        ("3 GiB", Some(3 << 30)),
        ("2kB", Some(2_000)),
        ("5MB", Some(5_000_000)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("17179869184GiB", None),
        ("", None),
        ("MiB", None),
        ("-1", None),
        ("1.5MiB", None),
        ("1mib", None),
    ] {
        assert_eq!(units::parse_bytes(text).ok(), expected, "{text:?}");
    }
}

#[test]
fn times_need_a_unit() {
    for (text, expected) in [
        ("200ms", Some(200)),
        ("30s", Some(30_000)),
        ("5m", Some(300_000)),
        ("2h", Some(7_200_000)),
        ("0ms", Some(0)),
        ("30", None),
        ("1.5s", None),
        ("s", None),
        ("18446744073709551615s", None),
    ] {
        assert_eq!(units::parse_ms(text).ok(), expected, "{text:?}");
    }
}

// ---- writes under way

#[test]
fn the_smaller_bound_of_writes_under_way_counts() {
    let bound = |world: World| (world.config().requests.commands_in_flight_max, world.warnings());
    let fine = Vec::<String>::new;
    assert_eq!(bound(zoo("")), (None, fine()));
    assert_eq!(bound(zoo("globalOutstandingLimit=50")), (Some(50), fine()));
    let both = "globalOutstandingLimit=50\nrequest_throttle_max_requests=20";
    assert_eq!(bound(zoo(both)), (Some(20), fine()));
    assert_eq!(bound(zoo("request_throttle_max_requests=0")), (None, fine()));
    assert_eq!(bound(flags("-Dzookeeper.request_throttle_max_requests=7")), (Some(7), fine()));
    assert_eq!(bound(World::toml("commands_in_flight_max = 9")), (Some(9), fine()));
    assert_eq!(zoo("throttled_op_wait_time=300").config().requests.throttled_op_wait_ms, 300);
    let toml = World::toml("throttled_op_wait = \"2s\"");
    assert_eq!(toml.config().requests.throttled_op_wait_ms, 2_000);
    assert!(zoo("globalOutstandingLimit=0").error().contains("is not between 1 and"));
}

// ---- who may connect, and large requests

#[test]
fn the_throttle_of_connections_is_that_of_zookeepers_properties() {
    let config = zoo("").config().requests.throttle;
    assert_eq!(config, ThrottleConfig::default());
    let all = "connection_throttle_tokens=5\nconnection_throttle_fill_time=10\n\
               connection_throttle_fill_count=2\nconnection_throttle_freeze_time=100\n\
               connection_throttle_drop_increase=0.5\nconnection_throttle_drop_decrease=.25\n\
               connection_throttle_decrease_ratio=1\nlargeRequestThreshold=1000\n\
               largeRequestMaxBytes=5000";
    let expected = ThrottleConfig {
        connections: ConnectionThrottleConfig {
            tokens_max: 5,
            fill_ms: 10,
            fill_count: 2,
            freeze_ms: Some(100),
            drop_increase: 0.5,
            drop_decrease: 0.25,
            decrease_ratio: 1.0,
            weights: None,
        },
        large_requests: LargeRequestsConfig { threshold: Some(1_000), bytes_max: 5_000 },
    };
    assert_eq!(
        (zoo(all).config().requests.throttle, zoo(all).warnings()),
        (expected.clone(), vec![])
    );
    let words: Vec<String> = all.lines().map(|line| format!("-Dzookeeper.{line}")).collect();
    assert_eq!(flags(&words.join(" ")).config().requests.throttle, expected);
    let toml = "connect_tokens_max = 5\nconnect_fill = \"10ms\"\nconnect_fill_count = 2\n\
                connect_freeze = \"100ms\"\nconnect_drop_increase = 0.5\n\
                connect_drop_decrease = 0.25\nconnect_decrease_ratio = 1\n\
                large_request_bytes_min = 1001\nlarge_requests_bytes_max = 5000";
    assert_eq!(World::toml(toml).config().requests.throttle, expected);
    assert_eq!(
        zoo("connection_throttle_freeze_time=-1").config().requests.throttle.connections.freeze_ms,
        None
    );
}

#[test]
fn numbers_that_no_throttle_can_have_are_refused() {
    for line in [
        "connection_throttle_tokens=-1",
        "connection_throttle_tokens=many",
        "connection_throttle_fill_time=0",
        "connection_throttle_fill_count=-1",
        "connection_throttle_freeze_time=-2",
        "connection_throttle_drop_increase=2",
        "connection_throttle_drop_decrease=NaN",
        "connection_throttle_decrease_ratio=-0.1",
        "connection_throttle_weight_enabled=perhaps",
        "largeRequestThreshold=1MB",
    ] {
        let key = line.split('=').next().unwrap();
        assert!(zoo(line).error().contains(key), "{line}");
    }
    for line in [
        "connect_tokens_max = -1",
        "connect_fill = \"0ms\"",
        "connect_drop_increase = 1.5",
        "connect_weights = { guest = 1 }",
        "large_request_bytes_min = 0",
        "large_requests_bytes_max = 0",
        "connect_everyone = true",
    ] {
        let key = line.split(' ').next().unwrap();
        assert!(World::toml(line).error().contains(key), "{line}");
    }
}

/// Checks the weights of a new and of a renewed session, and the count of warnings.
fn check_weights(lines: &str, expected: Option<(u32, u32)>, warnings: usize) {
    let world = zoo(&format!("connection_throttle_tokens=1\n{lines}"));
    let weights = world.config().requests.throttle.connections.weights;
    let weights = weights.map(|weights| (weights.new_session, weights.renewed_session));
    assert_eq!((weights, world.warnings().len()), (expected, warnings), "{lines}");
}

#[test]
fn weights_that_cannot_be_are_replaced_as_by_zookeeper() {
    let on = |lines: &str| {
        format!("connection_throttle_weight_enabled=true\n{lines}")
            .replace("weight_of_", "connection_throttle_")
    };
    check_weights("connection_throttle_global_session_weight=9", None, 0);
    check_weights(&on(""), Some((3, 2)), 0);
    check_weights(
        &on("weight_of_global_session_weight=9\nweight_of_renew_session_weight=5"),
        Some((9, 5)),
        0,
    );
    check_weights(&on("weight_of_local_session_weight=7"), Some((7, 7)), 2);
    check_weights(&on("weight_of_global_session_weight=0"), Some((3, 2)), 1);
    check_weights(
        &on("weight_of_local_session_weight=-1\nweight_of_renew_session_weight=-1"),
        Some((3, 2)),
        2,
    );
    let toml = World::toml("connect_weights = { global = 4, renew = 1 }").config();
    let weights = toml.requests.throttle.connections.weights;
    assert_eq!(weights, Some(Weights { new_session: 4, renewed_session: 1 }));
}

#[test]
fn bounds_of_large_requests_that_cannot_be_are_warned_of_as_by_zookeeper() {
    let large = |lines: &str| {
        let world = zoo(lines);
        let LargeRequestsConfig { threshold, bytes_max } =
            world.config().requests.throttle.large_requests;
        (threshold, bytes_max, world.warnings().len())
    };
    let default = 100 * 1024 * 1024;
    assert_eq!(large("largeRequestThreshold=-1"), (None, default, 0));
    assert_eq!(large("largeRequestThreshold=0"), (None, default, 1));
    assert_eq!(large("largeRequestThreshold=-2"), (None, default, 1));
    assert_eq!(large("largeRequestMaxBytes=0"), (None, default, 1));
}

#[test]
fn each_connection_runtime_has_a_share_of_the_writes_under_way() {
    let config = zoo("globalOutstandingLimit=50").config();
    assert_eq!(config.requests.commands_in_flight_of(4), 12);
    assert_eq!(config.requests.commands_in_flight_of(64), 1);
    assert_eq!(zoo("").config().requests.commands_in_flight_of(4), FRONT_COMMANDS_MAX);
}

// ---- the container image's variables

fn container(variables: &[(&str, &str)]) -> World {
    let text = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let mut world = World::default();
    world.env.container = variables.iter().map(text).collect();
    world
}

#[test]
fn the_container_images_variables_stand_for_a_zoo_cfg() {
    let world = container(&[
        ("ZOO_DATA_DIR", "/data"),
        ("ZOO_TICK_TIME", "1000"),
        ("ZOO_MAX_CLIENT_CNXNS", "7"),
        ("ZOO_4LW_COMMANDS_WHITELIST", "ruok, mntr"),
        ("ZOO_CFG_EXTRA", "snapCount=9 minSessionTimeout=3000\n  enforceQuota=true"),
        ("ZOO_MY_ID", "1"),
        ("ZOO_LOG_DIR", "/logs"),
    ]);
    let config = world.config();
    assert_eq!(config.storage.data_dir, Path::new("/data"));
    assert_eq!(config.listeners.zk_addr, Some(ListenAddress { host: None, port: 2181 }));
    assert_eq!((config.sessions.tick_ms, config.sessions.timeout_ms_min), (1_000, 3_000));
    assert_eq!(config.listeners.connections_per_ip_max, 7);
    assert!(allows(&config.listeners.four_letter_words, "mntr"));
    assert_eq!(config.storage.disk.snapshot_commands, 9);
    assert!(config.replicated.enforce_quota);
    assert_eq!((config.my_id, config.source.file.as_deref()), (Some(1), None));
    assert_eq!(world.warnings(), Vec::<String>::new());
}

#[test]
fn a_server_of_the_container_names_the_port() {
    let server = ("ZOO_SERVERS", "server.3=zoo3:2888:3888;2199");
    let world = container(&[server, ("ZOO_MY_ID", "3"), ("ZOO_DATA_DIR", "/data")]);
    assert_eq!(world.config().listeners.zk_addr.unwrap().port, 2199);
    // A `myid` file that exists in the data directory wins.
    let other = container(&[server, ("ZOO_MY_ID", "4"), ("ZOO_DATA_DIR", "/data")]);
    assert_eq!(other.and("/data/myid", "3").config().listeners.zk_addr.unwrap().port, 2199);
}

#[test]
fn a_mounted_file_and_the_command_line_win_over_the_containers_variables() {
    let variables = [("ZOO_CONF_DIR", "/conf"), ("ZOO_MAX_CLIENT_CNXNS", "7")];
    let world = container(&variables);
    assert_eq!(world.config().listeners.connections_per_ip_max, 7);
    let mounted = world.and("/conf/zoo.cfg", "dataDir=/d\nclientPort=2182");
    assert_eq!(mounted.config().listeners.zk_addr.unwrap().port, 2182);
    assert_eq!(mounted.config().listeners.connections_per_ip_max, 60);
    let mut named = container(&variables).and("own.cfg", "dataDir=/d\nclientPort=2183");
    named.args.config = Some(PathBuf::from("own.cfg"));
    assert_eq!(named.config().listeners.zk_addr.unwrap().port, 2183);
    let mut moved = container(&[("ZOO_DATA_DIR", "/data")]);
    moved.args.data_dir = Some(PathBuf::from("/srv"));
    assert_eq!(moved.config().storage.data_dir, Path::new("/srv"));
}

#[test]
fn a_wrong_variable_is_named() {
    let check = |variable: (&str, &str), expected: &str| {
        let text = container(&[variable]).error();
        assert!(text.starts_with(expected), "{text}");
    };
    check(("ZOO_TICK_TIME", "soon"), "ZOO_TICK_TIME: tickTime: ");
    check(("ZOO_CFG_EXTRA", "snapCount"), "ZOO_CFG_EXTRA: \"snapCount\" is not of the form");
    check(("ZOO_SERVERS", "server.1=zoo1"), "ZOO_SERVERS: server.1: ");
    check(("ZOO_MY_ID", "one"), "ZOO_MY_ID: \"one\" is not the number");
}

#[test]
fn a_variable_of_the_image_that_configures_nothing_changes_nothing() {
    let config = container(&[("ZOO_LOG_DIR", "/logs"), ("ZOO_CONF_DIR", "/none")]).config();
    assert_eq!(config, World::default().config());
}

const PROMETHEUS: &str =
    "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n";

#[test]
fn metrics_are_served_where_the_provider_says() {
    let metrics = |text: String| {
        let found =
            World::zoo(&format!("dataDir=d\nclientPort=1\n{text}")).config().monitoring.metrics;
        found.map(|metrics| format!("{} {}", metrics.addr, metrics.with_process))
    };
    assert_eq!(metrics(String::new()), None);
    assert_eq!(metrics("metricsProvider.httpPort=7001\n".into()), None);
    assert_eq!(metrics(PROMETHEUS.into()).as_deref(), Some("*:7000 true"));
    let host = "metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=7001\n";
    let own = "metricsProvider.exportJvmInfo=false\nmetricsProvider.numWorkerThreads=2\n";
    let found = metrics(format!("{PROMETHEUS}{host}{own}"));
    assert_eq!(found.as_deref(), Some("127.0.0.1:7001 false"));
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n"));
    assert!(zoo("metricsProvider.httpPort=x").error().contains("is not a port"));
    let warnings = zoo("metricsProvider.className=org.example.Mine").warnings();
    assert_eq!(warnings, ["conf/zoo.cfg:3: metricsProvider.className"]);
    let toml = World::toml("metrics_addr = \"127.0.0.1:7002\"\nmetrics_of_process = false");
    let expected = MetricsConfig {
        addr: ListenAddress { host: Some("127.0.0.1".into()), port: 7002 },
        with_process: false,
    };
    assert_eq!(toml.config().monitoring.metrics, Some(expected));
}

#[test]
fn a_slow_write_of_the_log_is_warned_of_after_the_configured_time() {
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n")).config();
    assert_eq!(zoo("").storage.fsync_warning_ms, 1_000);
    assert_eq!(zoo("fsync.warningthresholdms=50").storage.fsync_warning_ms, 50);
    assert_eq!(World::toml("fsync_warning = \"20ms\"").config().storage.fsync_warning_ms, 20);
}

#[test]
fn the_admin_server_is_served_where_it_is_asked_for() {
    let admin = |text: &str| {
        let found =
            World::zoo(&format!("dataDir=d\nclientPort=1\n{text}")).config().monitoring.admin;
        let shown = |it: AdminConfig| {
            format!("{} {} {} {}", it.addr, it.is_port_configured, it.command_url, it.idle_ms)
        };
        found.map(shown)
    };
    assert_eq!(admin(""), None);
    assert_eq!(admin("admin.commandURL=/c\n"), None);
    assert_eq!(admin("admin.enableServer=false\nadmin.serverPort=9\n"), None);
    let default = admin("admin.enableServer=true\n");
    assert_eq!(default.as_deref(), Some("*:8080 false /commands 30000"));
    let address = "admin.serverPort=9\nadmin.serverAddress=127.0.0.1\n";
    let all = format!("{address}admin.commandURL=/c\nadmin.idleTimeout=5\n");
    assert_eq!(admin(&all).as_deref(), Some("127.0.0.1:9 true /c 5"));
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n"));
    let wrong = ["serverPort=x", "idleTimeout=0", "commandURL=c", "commandURL=/", "commandURL=/c/"];
    for line in wrong {
        let error = zoo(&format!("admin.{line}")).error();
        assert!(error.contains(" is not a "), "{error}");
    }
    let toml = World::toml("admin_addr = \"127.0.0.1:8081\"").config().monitoring.admin.unwrap();
    assert_eq!((toml.addr.port, toml.is_port_configured), (8081, true));
}

#[test]
fn the_chunk_store_is_served_where_it_is_asked_for() {
    let shown = |world: &World| {
        let found = world.config().chunk;
        found.map(|it| {
            let addr = it.addr.expect("it was given");
            format!("{addr} {} {}", layout_name(it.layout), it.verify_writes)
        })
    };
    let zoo = |text: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{text}"));
    assert_eq!(shown(&zoo("")), None);
    assert_eq!(shown(&zoo("quorate.chunkLayout=per-block\n")), None);
    let address = "quorate.chunkAddr=127.0.0.1:9859\n";
    assert_eq!(shown(&zoo(address)).as_deref(), Some("127.0.0.1:9859 log false"));
    let more = "quorate.chunkLayout=per-chunk\nquorate.chunkVerifyWrites=true\n";
    let all = zoo(&format!("{address}{more}"));
    assert_eq!(shown(&all).as_deref(), Some("127.0.0.1:9859 per-chunk true"));
    let error = zoo("quorate.chunkLayout=FILE_PER_BLOCK\n").error();
    assert!(error.contains("is not a layout: per-block, per-chunk or log"), "{error}");
    let text = "chunk_addr = \"*:1\"\nchunk_layout = \"per-block\"\nchunk_verify_writes = true";
    assert_eq!(shown(&World::toml(text)).as_deref(), Some("*:1 per-block true"));
    let error = World::toml("chunk_layout = \"none\"").error();
    assert!(error.contains("is not a layout"), "{error}");
}

#[test]
fn the_chunk_store_may_be_served_by_tls_with_the_stores_of_the_other_ports() {
    let zoo = |text: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{text}"));
    let address = "quorate.chunkTlsAddr=127.0.0.1:9860\n";
    let error = zoo(address).error();
    assert!(error.contains("ssl.keyStore.location is not set: TLS needs a key"), "{error}");
    let stores = "ssl.keyStore.location=k.pem\nssl.trustStore.location=t.pem\n";
    let config = zoo(&format!("{address}{stores}")).config();
    let chunk = config.chunk.unwrap();
    assert_eq!((chunk.addr, chunk.tls_addr.unwrap().port), (None, 9_860));
    assert_eq!(config.tls.unwrap().key_store.path.to_str(), Some("k.pem"));
    // A TLS port for chunks leaves this setting off, since all members must agree on it.
    assert!(!config.replicated.x509_enabled && config.listeners.zk_tls_addr.is_none());
    let text = "chunk_tls_addr = \"*:2\"\ntls_key_store = \"k.pem\"\ntls_client_auth = \"none\"";
    let chunk = World::toml(text).config().chunk.unwrap();
    assert_eq!((chunk.addr, chunk.tls_addr.unwrap().port), (None, 2));
}

#[test]
fn connections_to_the_chunk_store_have_limits_that_can_be_said() {
    let limits = |world: World| {
        let chunk = world.config().chunk.unwrap();
        (chunk.connections_max, chunk.connections_per_ip_max)
    };
    let zoo = |text: &str| {
        World::zoo(&format!("dataDir=d\nclientPort=1\nquorate.chunkAddr=127.0.0.1:9859\n{text}"))
    };
    assert_eq!(limits(zoo("")), (1_024, 256));
    let said = "quorate.chunkConnectionsMax=5\nquorate.chunkConnectionsPerIpMax=0\n";
    assert_eq!(limits(zoo(said)), (5, 0));
    let toml = "chunk_addr = \"*:1\"\nchunk_connections_max = 0\nchunk_connections_per_ip_max = 7";
    assert_eq!(limits(World::toml(toml)), (0, 7));
}

#[test]
fn what_the_admin_server_may_do_with_whole_states() {
    let images = |text: &str| {
        let it = World::zoo(&format!("dataDir=d\nclientPort=1\n{text}")).config().monitoring.images;
        (it.is_snapshot_enabled, it.is_restore_enabled, it.rate_limit_interval_ms)
    };
    assert_eq!(images(""), (true, true, 300_000));
    assert_eq!(images("admin.snapshot.enabled=FALSE\n"), (false, true, 300_000));
    assert_eq!(images("admin.restore.enabled=no\n"), (true, false, 300_000));
    assert_eq!(images("admin.rateLimiterIntervalInMS=0\n"), (true, true, 0));
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n"));
    assert!(zoo("admin.rateLimiterIntervalInMS=5s").error().contains("\"5s\" is not a time in ms"));
    let text = "admin_snapshot = false\nadmin_restore = false\nadmin_rate_limit_interval = \"2s\"";
    let toml = World::toml(text).config().monitoring.images;
    assert!(!toml.is_snapshot_enabled && !toml.is_restore_enabled);
    assert_eq!(toml.rate_limit_interval_ms, 2_000);
}

#[test]
fn the_file_and_the_properties_are_kept_as_they_were() {
    let text = "dataDir=d\nclientPort=1\nadmin.enableServer=true\nzookeeper.snapCount=9\n";
    let config = World::zoo(text).jvmflags("-Dfoo.bar=baz -Xmx1g -Dzookeeper.skipACL=yes").config();
    assert_eq!(config.source.initial_config, text);
    let properties: Vec<String> = config
        .source
        .system_properties
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let expected = [
        "foo.bar=baz",
        "zookeeper.admin.enableServer=true",
        "zookeeper.skipACL=yes",
        "zookeeper.zookeeper.snapCount=9",
    ];
    assert_eq!(properties, expected);
}

#[test]
fn audit_and_slow_requests_are_off_unless_asked_for() {
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n"));
    let shown =
        |world: &World| (world.config().logging.audit, world.config().logging.slow_request_ms);
    assert_eq!(shown(&zoo("")), (false, None));
    assert_eq!(shown(&zoo("audit.enable=true")), (true, None));
    assert_eq!(shown(&zoo("quorate.slowRequestMs=250")), (false, Some(250)));
    assert_eq!(shown(&zoo("quorate.slowRequestMs=0")), (false, None));
    let other = zoo("audit.impl.class=org.example.Mine");
    assert_eq!(other.warnings(), ["conf/zoo.cfg:3: audit.impl.class"]);
    let toml = World::toml("audit = true\nslow_request = \"250ms\"");
    assert_eq!(shown(&toml), (true, Some(250)));
}

#[test]
fn the_time_without_a_session_is_that_of_zookeepers_property() {
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n"));
    let shown = |world: &World| (world.config().sessions.sessionless_ms_max, world.warnings());
    let fine = Vec::<String>::new;
    assert_eq!(shown(&zoo("")), (10_000, fine()));
    assert_eq!(shown(&zoo("nio.sessionlessCnxnTimeout=2500")), (2_500, fine()));
    assert_eq!(shown(&World::toml("sessionless_timeout = \"3s\"")), (3_000, fine()));
    assert!(zoo("nio.sessionlessCnxnTimeout=0").error().contains("is not between 1 and"));
    assert!(World::toml("sessionless_timeout = \"0s\"").error().contains("sessionless_timeout"));
}

#[test]
fn a_disk_may_hang_for_a_second_unless_configured() {
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n"));
    let shown = |world: &World| (world.config().storage.disk.stall_ms, world.warnings());
    let fine = Vec::<String>::new;
    assert_eq!(shown(&zoo("")), (1_000, fine()));
    assert_eq!(shown(&zoo("quorate.diskStallMs=300")), (300, fine()));
    assert_eq!(shown(&World::toml("disk_stall = \"10s\"")), (10_000, fine()));
    let level = |world: &World| world.config().storage.level_max;
    assert_eq!(level(&zoo("")), machine::Level::RELEASED);
    assert_eq!(level(&zoo("quorate.levelMax=1")), machine::Level::FIRST);
    assert_eq!(level(&World::toml("level_max = 1")), machine::Level::FIRST);
    assert_eq!(level(&World::toml("level_max = 2")), machine::Level::ETCD);
    assert_eq!(level(&zoo("quorate.levelMax=3")), machine::Level::ETCD_V2);
    assert_eq!(level(&zoo("quorate.levelMax=4")), machine::Level::TOKENS);
    assert!(zoo("quorate.levelMax=6").error().contains("level 6 is not between 1 and 5"));
    let v2 = "etcd_addr = \"127.0.0.1:1\"\netcd_enable_v2 = true\n";
    assert_eq!(level(&World::toml(v2)), machine::Level::RELEASED);
    let low = World::toml(&format!("{v2}level_max = 2")).error();
    assert!(low.contains("clients of etcd v2 need level 3"), "{low}");
    let both = "etcd_addr = \"127.0.0.1:1\"\nlevel_max = 1";
    assert!(World::toml(both).error().contains("etcd's clients need level 2"));
    assert!(zoo("quorate.diskStallMs=10001").error().contains("10001 ms is not between 1 and"));
    assert!(zoo("quorate.diskStallMs=0").error().contains("is not between 1 and"));
    assert!(World::toml("disk_stall = \"0s\"").error().contains("disk_stall"));
}

#[test]
fn replies_have_no_bound_unless_one_is_set() {
    let zoo = |line: &str| World::zoo(&format!("dataDir=d\nclientPort=1\n{line}\n"));
    let shown = |world: &World| world.config().requests.reply_bytes_max;
    assert_eq!(shown(&zoo("")), None);
    assert_eq!(shown(&zoo("quorate.replyBytesMax=64MiB")), Some(64 << 20));
    assert_eq!(shown(&zoo("quorate.replyBytesMax=0")), None);
    assert_eq!(shown(&World::toml("reply_bytes_max = \"1MiB\"")), Some(1 << 20));
    assert_eq!(shown(&World::toml("reply_bytes_max = 0")), None);
    assert!(zoo("quorate.replyBytesMax=much").error().contains("much"));
}
