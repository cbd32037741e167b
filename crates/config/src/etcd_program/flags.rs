//! The table of etcd's flags: those of etcd 3.6.16 with their defaults (`embed/config.go`,
//! `etcdmain/config.go`) and a few of etcd 3.4 and 3.5 that many manifests use, each with its
//! effect here.

/// The form that a flag's value must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// True or false; true if no value is given.
    Switch,
    /// Any text.
    Text,
    /// Texts separated by commas.
    Texts,
    /// An integer from 0.
    Count,
    /// An integer, which may be negative.
    Number,
    /// A time with units, as `1m30s`.
    Duration,
    /// URLs separated by commas.
    Urls,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// `name=true` or `name=false`, separated by commas.
    Gates,
    /// Any text or none: etcd ignores it.
    Ignored,
}

/// The effect of a flag here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does what it does in etcd.
    Served,
    /// It does nothing. A value other than the default causes a warning with this reason.
    Unserved(&'static str),
    /// A value other than the default ends the program with this reason, because going on without
    /// the effect would do harm.
    Refused(&'static str),
    /// It is the old name of this flag.
    Old(&'static str),
    /// It sets this feature gate.
    Gate(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    pub name: &'static str,
    pub kind: Kind,
    pub default: &'static str,
    pub fate: Fate,
}

/// The flag with this name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    GROUPS.iter().flat_map(|(_, flags)| flags.iter()).find(|flag| flag.name == name)
}

/// The flag, or the key that only a configuration file may have, with this name.
pub(super) fn find_in_file(name: &str) -> Option<&'static Flag> {
    find(name).or_else(|| IN_FILE.iter().find(|flag| flag.name == name))
}

/// The common names that client certificates may have. etcd has a key of the file for them, no
/// flag.
pub(super) const CLIENT_NAMES: &str = "client-cert-allowed-cn";

/// Settings that only a configuration file may have.
const IN_FILE: &[Flag] = &[served(CLIENT_NAMES, Kind::Texts, "")];

/// The feature gates: name, stage and default (`features/etcd_features.go`).
pub(super) const GATES: [(&str, &str, bool); 9] = [
    ("AllAlpha", "ALPHA", false),
    ("AllBeta", "BETA", false),
    ("CompactHashCheck", "ALPHA", false),
    ("InitialCorruptCheck", "ALPHA", false),
    ("LeaseCheckpoint", "ALPHA", false),
    ("LeaseCheckpointPersist", "ALPHA", false),
    ("SetMemberLocalAddr", "ALPHA", false),
    ("StopGRPCServiceOnDefrag", "ALPHA", false),
    ("TxnModeWriteWithSharedBuffer", "BETA", true),
];

const fn flag(name: &'static str, kind: Kind, default: &'static str, fate: Fate) -> Flag {
    Flag { name, kind, default, fate }
}

const fn served(name: &'static str, kind: Kind, default: &'static str) -> Flag {
    flag(name, kind, default, Fate::Served)
}

const fn unserved(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    reason: &'static str,
) -> Flag {
    flag(name, kind, default, Fate::Unserved(reason))
}

const fn refused(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    reason: &'static str,
) -> Flag {
    flag(name, kind, default, Fate::Refused(reason))
}

const fn old(name: &'static str, kind: Kind, default: &'static str, new: &'static str) -> Flag {
    flag(name, kind, default, Fate::Old(new))
}

const fn ignored(name: &'static str) -> Flag {
    unserved(name, Kind::Ignored, "", "etcd ignores it, too")
}

/// The name of the flag for a configuration file.
pub(super) const CONFIG_FILE: &str = "config-file";

/// The name of the flag that prints the version.
pub(super) const VERSION: &str = "version";

const BY_SIZE: &str = "snapshots and the log are kept by their size";
const RAFT_TIMES: &str = "heartbeats and elections have times of their own";
const NO_FILE: &str = "there is no bbolt file";
const NO_DISCOVERY: &str = "discovery is not served: name the members in --initial-cluster";
const NO_TRACING: &str = "there are no traces";
const COMPARED: &str = "members compare their states all the time";
const NO_STEPS: &str = "a compaction frees memory in bounded steps";
const NO_ROTATION: &str = "log files are not rotated: let logrotate do that";
const NO_V2: &str = "etcd v2 has keys of its own";
const NO_PROXY: &str = "there is no v2 proxy";
const NO_DOWNGRADE: &str = "there are no downgrades";

/// All flags, in the groups that the help shows.
pub(super) const GROUPS: [(&str, &[Flag]); 9] = [
    ("Member", MEMBER),
    ("Limits", LIMITS),
    ("Clustering", CLUSTERING),
    ("Security", SECURITY),
    ("Auth", AUTH),
    ("Monitoring and logs", MONITORING),
    ("History and integrity", HISTORY),
    ("Discovery", DISCOVERY),
    ("Of other versions", OLD),
];

const MEMBER: &[Flag] = &[
    served("name", Kind::Text, "default"),
    served("data-dir", Kind::Text, ""),
    served("wal-dir", Kind::Text, ""),
    served("listen-peer-urls", Kind::Urls, "http://localhost:2380"),
    served("listen-client-urls", Kind::Urls, "http://localhost:2379"),
    served("listen-client-http-urls", Kind::Urls, ""),
    served(CONFIG_FILE, Kind::Text, ""),
    unserved("snapshot-count", Kind::Count, "10000", BY_SIZE),
    unserved("snapshot-catchup-entries", Kind::Count, "5000", BY_SIZE),
    unserved("max-snapshots", Kind::Count, "5", BY_SIZE),
    unserved("max-wals", Kind::Count, "5", BY_SIZE),
    unserved("heartbeat-interval", Kind::Count, "100", RAFT_TIMES),
    unserved("election-timeout", Kind::Count, "1000", RAFT_TIMES),
    unserved("initial-election-tick-advance", Kind::Switch, "true", RAFT_TIMES),
    unserved("memory-mlock", Kind::Switch, "false", NO_FILE),
    unserved("backend-bbolt-freelist-type", Kind::Text, "", NO_FILE),
    unserved("backend-batch-interval", Kind::Duration, "0s", NO_FILE),
    unserved("backend-batch-limit", Kind::Number, "0", NO_FILE),
    unserved("bootstrap-defrag-threshold-megabytes", Kind::Count, "0", NO_FILE),
    unserved("socket-reuse-port", Kind::Switch, "false", "a port has one listener"),
    unserved("socket-reuse-address", Kind::Switch, "false", "addresses are always taken again"),
    unserved("raft-read-timeout", Kind::Duration, "5s", RAFT_TIMES),
    unserved("raft-write-timeout", Kind::Duration, "5s", RAFT_TIMES),
    served("feature-gates", Kind::Gates, ""),
    unserved("unsafe-no-fsync", Kind::Switch, "false", "nothing is acknowledged without fsync"),
    served("force-new-cluster", Kind::Switch, "false"),
];

const LIMITS: &[Flag] = &[
    served("quota-backend-bytes", Kind::Number, "0"),
    served("max-txn-ops", Kind::Count, "128"),
    served("max-request-bytes", Kind::Count, "1572864"),
    served("max-concurrent-streams", Kind::Count, "4294967295"),
    served("grpc-keepalive-min-time", Kind::Duration, "5s"),
    served("grpc-keepalive-interval", Kind::Duration, "2h0m0s"),
    served("grpc-keepalive-timeout", Kind::Duration, "20s"),
    served("enable-grpc-gateway", Kind::Switch, "true"),
];

const CLUSTERING: &[Flag] = &[
    served("initial-cluster", Kind::Text, ""),
    served("initial-advertise-peer-urls", Kind::Urls, "http://localhost:2380"),
    served("advertise-client-urls", Kind::Urls, "http://localhost:2379"),
    served("initial-cluster-state", Kind::Choice(&["new", "existing"]), "new"),
    unserved(
        "initial-cluster-token",
        Kind::Text,
        "etcd-cluster",
        "clusters are told apart by ids that they draw at their birth",
    ),
    served("strict-reconfig-check", Kind::Switch, "true"),
    unserved("pre-vote", Kind::Switch, "true", "elections always begin with a pre-vote"),
    served("max-learners", Kind::Count, "1"),
    unserved(
        "v2-deprecation",
        Kind::Choice(&["write-only", "write-only-skip-check", "write-only-drop-data", "gone"]),
        "",
        "it is deprecated and scheduled for removal in v3.8, and the default value is enforced",
    ),
];

const SECURITY: &[Flag] = &[
    served("cert-file", Kind::Text, ""),
    served("key-file", Kind::Text, ""),
    served("trusted-ca-file", Kind::Text, ""),
    served("client-cert-auth", Kind::Switch, "false"),
    served("auto-tls", Kind::Switch, "false"),
    unserved("client-cert-file", Kind::Text, "", "the gateway calls no server"),
    unserved("client-key-file", Kind::Text, "", "the gateway calls no server"),
    served("client-crl-file", Kind::Text, ""),
    served("client-cert-allowed-hostname", Kind::Texts, ""),
    served("peer-cert-file", Kind::Text, ""),
    served("peer-key-file", Kind::Text, ""),
    served("peer-trusted-ca-file", Kind::Text, ""),
    served("peer-client-cert-auth", Kind::Switch, "false"),
    served("peer-auto-tls", Kind::Switch, "false"),
    unserved("peer-client-cert-file", Kind::Text, "", "members show the one of peer-cert-file"),
    unserved("peer-client-key-file", Kind::Text, "", "members show the one of peer-cert-file"),
    served("peer-crl-file", Kind::Text, ""),
    served("peer-cert-allowed-cn", Kind::Texts, ""),
    served("peer-cert-allowed-hostname", Kind::Texts, ""),
    served("peer-skip-client-san-verification", Kind::Switch, "false"),
    served("self-signed-cert-validity", Kind::Count, "1"),
    served("cipher-suites", Kind::Texts, ""),
    served("tls-min-version", Kind::Text, "TLS1.2"),
    served("tls-max-version", Kind::Text, ""),
    served("cors", Kind::Texts, "*"),
    served("host-whitelist", Kind::Texts, "*"),
];

const AUTH: &[Flag] = &[
    served("auth-token", Kind::Text, "simple"),
    served("auth-token-ttl", Kind::Count, "300"),
    served("bcrypt-cost", Kind::Count, "10"),
];

const MONITORING: &[Flag] = &[
    served("listen-metrics-urls", Kind::Urls, ""),
    served("metrics", Kind::Text, "basic"),
    unserved("enable-pprof", Kind::Switch, "false", "there are no profiles of Go"),
    served("logger", Kind::Text, "zap"),
    served("log-level", Kind::Text, "info"),
    served("log-format", Kind::Text, "json"),
    served("log-outputs", Kind::Texts, "default"),
    unserved("enable-log-rotation", Kind::Switch, "false", NO_ROTATION),
    unserved(
        "log-rotation-config-json",
        Kind::Text,
        r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#,
        NO_ROTATION,
    ),
    unserved("warning-apply-duration", Kind::Duration, "100ms", "there is no line for each"),
    served("warning-unary-request-duration", Kind::Duration, "0s"),
    unserved("enable-distributed-tracing", Kind::Switch, "false", NO_TRACING),
    unserved("distributed-tracing-address", Kind::Text, "localhost:4317", NO_TRACING),
    unserved("distributed-tracing-service-name", Kind::Text, "etcd", NO_TRACING),
    unserved("distributed-tracing-instance-id", Kind::Text, "", NO_TRACING),
    unserved("distributed-tracing-sampling-rate", Kind::Number, "0", NO_TRACING),
];

const HISTORY: &[Flag] = &[
    served("auto-compaction-mode", Kind::Text, "periodic"),
    served("auto-compaction-retention", Kind::Text, "0"),
    served("watch-progress-notify-interval", Kind::Duration, "0s"),
    unserved("compaction-batch-limit", Kind::Number, "0", NO_STEPS),
    unserved("compaction-sleep-interval", Kind::Duration, "0s", NO_STEPS),
    unserved("corrupt-check-time", Kind::Duration, "0s", COMPARED),
    unserved("compact-hash-check-time", Kind::Duration, "1m0s", COMPARED),
    unserved("downgrade-check-time", Kind::Duration, "5s", NO_DOWNGRADE),
];

const DISCOVERY: &[Flag] = &[
    refused("discovery", Kind::Text, "", NO_DISCOVERY),
    refused("discovery-token", Kind::Text, "", NO_DISCOVERY),
    refused("discovery-endpoints", Kind::Texts, "", NO_DISCOVERY),
    refused("discovery-srv", Kind::Text, "", NO_DISCOVERY),
    refused("discovery-srv-name", Kind::Text, "", NO_DISCOVERY),
    refused("discovery-proxy", Kind::Text, "", NO_DISCOVERY),
    unserved("discovery-fallback", Kind::Choice(&["exit", "proxy"]), "exit", NO_DISCOVERY),
    unserved("discovery-dial-timeout", Kind::Duration, "2s", NO_DISCOVERY),
    unserved("discovery-request-timeout", Kind::Duration, "5s", NO_DISCOVERY),
    unserved("discovery-keepalive-time", Kind::Duration, "2s", NO_DISCOVERY),
    unserved("discovery-keepalive-timeout", Kind::Duration, "6s", NO_DISCOVERY),
    unserved("discovery-insecure-transport", Kind::Switch, "true", NO_DISCOVERY),
    unserved("discovery-insecure-skip-tls-verify", Kind::Switch, "false", NO_DISCOVERY),
    unserved("discovery-cert", Kind::Text, "", NO_DISCOVERY),
    unserved("discovery-key", Kind::Text, "", NO_DISCOVERY),
    unserved("discovery-cacert", Kind::Text, "", NO_DISCOVERY),
    unserved("discovery-user", Kind::Text, "", NO_DISCOVERY),
    unserved("discovery-password", Kind::Text, "", NO_DISCOVERY),
];

const OLD: &[Flag] = &[
    flag(
        "experimental-initial-corrupt-check",
        Kind::Switch,
        "false",
        Fate::Gate("InitialCorruptCheck"),
    ),
    flag(
        "experimental-compact-hash-check-enabled",
        Kind::Switch,
        "false",
        Fate::Gate("CompactHashCheck"),
    ),
    flag(
        "experimental-enable-lease-checkpoint",
        Kind::Switch,
        "false",
        Fate::Gate("LeaseCheckpoint"),
    ),
    flag(
        "experimental-enable-lease-checkpoint-persist",
        Kind::Switch,
        "false",
        Fate::Gate("LeaseCheckpointPersist"),
    ),
    flag(
        "experimental-txn-mode-write-with-shared-buffer",
        Kind::Switch,
        "true",
        Fate::Gate("TxnModeWriteWithSharedBuffer"),
    ),
    flag(
        "experimental-stop-grpc-service-on-defrag",
        Kind::Switch,
        "false",
        Fate::Gate("StopGRPCServiceOnDefrag"),
    ),
    old("experimental-corrupt-check-time", Kind::Duration, "0s", "corrupt-check-time"),
    old("experimental-compact-hash-check-time", Kind::Duration, "1m0s", "compact-hash-check-time"),
    old("experimental-compaction-batch-limit", Kind::Number, "0", "compaction-batch-limit"),
    old(
        "experimental-compaction-sleep-interval",
        Kind::Duration,
        "0s",
        "compaction-sleep-interval",
    ),
    old(
        "experimental-watch-progress-notify-interval",
        Kind::Duration,
        "0s",
        "watch-progress-notify-interval",
    ),
    old("experimental-warning-apply-duration", Kind::Duration, "100ms", "warning-apply-duration"),
    old(
        "experimental-warning-unary-request-duration",
        Kind::Duration,
        "0s",
        "warning-unary-request-duration",
    ),
    old(
        "experimental-bootstrap-defrag-threshold-megabytes",
        Kind::Count,
        "0",
        "bootstrap-defrag-threshold-megabytes",
    ),
    old("experimental-memory-mlock", Kind::Switch, "false", "memory-mlock"),
    old("experimental-snapshot-catchup-entries", Kind::Count, "5000", "snapshot-catchup-entries"),
    old(
        "experimental-peer-skip-client-san-verification",
        Kind::Switch,
        "false",
        "peer-skip-client-san-verification",
    ),
    old("experimental-downgrade-check-time", Kind::Duration, "5s", "downgrade-check-time"),
    old("experimental-max-learners", Kind::Number, "1", "max-learners"),
    old(
        "experimental-enable-distributed-tracing",
        Kind::Switch,
        "false",
        "enable-distributed-tracing",
    ),
    old(
        "experimental-distributed-tracing-address",
        Kind::Text,
        "localhost:4317",
        "distributed-tracing-address",
    ),
    old(
        "experimental-distributed-tracing-service-name",
        Kind::Text,
        "etcd",
        "distributed-tracing-service-name",
    ),
    old(
        "experimental-distributed-tracing-instance-id",
        Kind::Text,
        "",
        "distributed-tracing-instance-id",
    ),
    old(
        "experimental-distributed-tracing-sampling-rate",
        Kind::Number,
        "0",
        "distributed-tracing-sampling-rate",
    ),
    old("experimental-backend-bbolt-freelist-type", Kind::Text, "", "backend-bbolt-freelist-type"),
    unserved("experimental-enable-v2v3", Kind::Text, "", NO_V2),
    unserved("proxy-failure-wait", Kind::Count, "5000", NO_PROXY),
    unserved("proxy-refresh-interval", Kind::Count, "30000", NO_PROXY),
    unserved("proxy-dial-timeout", Kind::Count, "1000", NO_PROXY),
    unserved("proxy-write-timeout", Kind::Count, "5000", NO_PROXY),
    unserved("proxy-read-timeout", Kind::Count, "0", NO_PROXY),
    unserved("log-package-levels", Kind::Text, "", "say --log-level"),
    served("enable-v2", Kind::Switch, "false"),
    unserved("debug", Kind::Switch, "false", "say --log-level=debug"),
    refused("proxy", Kind::Choice(&["off", "readonly", "on"]), "off", NO_PROXY),
    ignored("cluster-active-size"),
    ignored("cluster-remove-delay"),
    ignored("cluster-sync-interval"),
    ignored("config"),
    ignored("force"),
    ignored("max-result-buffer"),
    ignored("max-retry-attempts"),
    ignored("peer-heartbeat-interval"),
    ignored("peer-election-timeout"),
    ignored("retry-interval"),
    ignored("snapshot"),
    ignored("v"),
    ignored("vv"),
    ignored("test.coverprofile"),
    ignored("test.outputdir"),
];
