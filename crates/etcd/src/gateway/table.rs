//! The gateway's table of the messages of `proto/*.proto`, generated.
//! `QUORATE_REGENERATE=1 cargo test --package etcd --test generated` writes this file anew.

use super::schema::{Enum, Field, GatewayMethod, Kind, Message};

/// Every message. Fields refer to it by position.
pub static MESSAGES: [Message; 120] = [
    Message { name: "authpb.UserAddOptions", fields: &[
        Field { number: 1, name: "no_password", json_name: "noPassword", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "authpb.User", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "password", json_name: "password", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "roles", json_name: "roles", kind: Kind::String, repeated: true, oneof: None },
        Field { number: 4, name: "options", json_name: "options", kind: Kind::Message(0), repeated: false, oneof: None },
    ] },
    Message { name: "authpb.Permission", fields: &[
        Field { number: 1, name: "permType", json_name: "permType", kind: Kind::Enum(0), repeated: false, oneof: None },
        Field { number: 2, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "range_end", json_name: "rangeEnd", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "authpb.Role", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "keyPermission", json_name: "keyPermission", kind: Kind::Message(2), repeated: true, oneof: None },
    ] },
    Message { name: "mvccpb.KeyValue", fields: &[
        Field { number: 1, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "create_revision", json_name: "createRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "mod_revision", json_name: "modRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "version", json_name: "version", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 5, name: "value", json_name: "value", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 6, name: "lease", json_name: "lease", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "mvccpb.Event", fields: &[
        Field { number: 1, name: "type", json_name: "type", kind: Kind::Enum(1), repeated: false, oneof: None },
        Field { number: 2, name: "kv", json_name: "kv", kind: Kind::Message(4), repeated: false, oneof: None },
        Field { number: 3, name: "prev_kv", json_name: "prevKv", kind: Kind::Message(4), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.ResponseHeader", fields: &[
        Field { number: 1, name: "cluster_id", json_name: "clusterId", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 2, name: "member_id", json_name: "memberId", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 3, name: "revision", json_name: "revision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "raft_term", json_name: "raftTerm", kind: Kind::Uint64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.RangeRequest", fields: &[
        Field { number: 1, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "range_end", json_name: "rangeEnd", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "limit", json_name: "limit", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "revision", json_name: "revision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 5, name: "sort_order", json_name: "sortOrder", kind: Kind::Enum(2), repeated: false, oneof: None },
        Field { number: 6, name: "sort_target", json_name: "sortTarget", kind: Kind::Enum(3), repeated: false, oneof: None },
        Field { number: 7, name: "serializable", json_name: "serializable", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 8, name: "keys_only", json_name: "keysOnly", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 9, name: "count_only", json_name: "countOnly", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 10, name: "min_mod_revision", json_name: "minModRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 11, name: "max_mod_revision", json_name: "maxModRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 12, name: "min_create_revision", json_name: "minCreateRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 13, name: "max_create_revision", json_name: "maxCreateRevision", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.RangeResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "kvs", json_name: "kvs", kind: Kind::Message(4), repeated: true, oneof: None },
        Field { number: 3, name: "more", json_name: "more", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 4, name: "count", json_name: "count", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.RangeStreamResponse", fields: &[
        Field { number: 1, name: "range_response", json_name: "rangeResponse", kind: Kind::Message(8), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.PutRequest", fields: &[
        Field { number: 1, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "value", json_name: "value", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "lease", json_name: "lease", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "prev_kv", json_name: "prevKv", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 5, name: "ignore_value", json_name: "ignoreValue", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 6, name: "ignore_lease", json_name: "ignoreLease", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.PutResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "prev_kv", json_name: "prevKv", kind: Kind::Message(4), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.DeleteRangeRequest", fields: &[
        Field { number: 1, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "range_end", json_name: "rangeEnd", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "prev_kv", json_name: "prevKv", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.DeleteRangeResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "deleted", json_name: "deleted", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "prev_kvs", json_name: "prevKvs", kind: Kind::Message(4), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.RequestOp", fields: &[
        Field { number: 1, name: "request_range", json_name: "requestRange", kind: Kind::Message(7), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
        Field { number: 2, name: "request_put", json_name: "requestPut", kind: Kind::Message(10), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
        Field { number: 3, name: "request_delete_range", json_name: "requestDeleteRange", kind: Kind::Message(12), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
        Field { number: 4, name: "request_txn", json_name: "requestTxn", kind: Kind::Message(17), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
    ] },
    Message { name: "etcdserverpb.ResponseOp", fields: &[
        Field { number: 1, name: "response_range", json_name: "responseRange", kind: Kind::Message(8), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
        Field { number: 2, name: "response_put", json_name: "responsePut", kind: Kind::Message(11), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
        Field { number: 3, name: "response_delete_range", json_name: "responseDeleteRange", kind: Kind::Message(13), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
        Field { number: 4, name: "response_txn", json_name: "responseTxn", kind: Kind::Message(18), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
    ] },
    Message { name: "etcdserverpb.Compare", fields: &[
        Field { number: 1, name: "result", json_name: "result", kind: Kind::Enum(4), repeated: false, oneof: None },
        Field { number: 2, name: "target", json_name: "target", kind: Kind::Enum(5), repeated: false, oneof: None },
        Field { number: 3, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 4, name: "version", json_name: "version", kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
        Field { number: 5, name: "create_revision", json_name: "createRevision", kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
        Field { number: 6, name: "mod_revision", json_name: "modRevision", kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
        Field { number: 7, name: "value", json_name: "value", kind: Kind::Bytes, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
        Field { number: 8, name: "lease", json_name: "lease", kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
        Field { number: 64, name: "range_end", json_name: "rangeEnd", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.TxnRequest", fields: &[
        Field { number: 1, name: "compare", json_name: "compare", kind: Kind::Message(16), repeated: true, oneof: None },
        Field { number: 2, name: "success", json_name: "success", kind: Kind::Message(14), repeated: true, oneof: None },
        Field { number: 3, name: "failure", json_name: "failure", kind: Kind::Message(14), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.TxnResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "succeeded", json_name: "succeeded", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 3, name: "responses", json_name: "responses", kind: Kind::Message(15), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.CompactionRequest", fields: &[
        Field { number: 1, name: "revision", json_name: "revision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 2, name: "physical", json_name: "physical", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.CompactionResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.HashRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.HashKVRequest", fields: &[
        Field { number: 1, name: "revision", json_name: "revision", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.HashKVResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "hash", json_name: "hash", kind: Kind::Uint32, repeated: false, oneof: None },
        Field { number: 3, name: "compact_revision", json_name: "compactRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "hash_revision", json_name: "hashRevision", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.HashResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "hash", json_name: "hash", kind: Kind::Uint32, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.SnapshotRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.SnapshotResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "remaining_bytes", json_name: "remainingBytes", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 3, name: "blob", json_name: "blob", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 4, name: "version", json_name: "version", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.WatchRequest", fields: &[
        Field { number: 1, name: "create_request", json_name: "createRequest", kind: Kind::Message(28), repeated: false, oneof: Some("etcdserverpb.WatchRequest.request_union") },
        Field { number: 2, name: "cancel_request", json_name: "cancelRequest", kind: Kind::Message(29), repeated: false, oneof: Some("etcdserverpb.WatchRequest.request_union") },
        Field { number: 3, name: "progress_request", json_name: "progressRequest", kind: Kind::Message(30), repeated: false, oneof: Some("etcdserverpb.WatchRequest.request_union") },
    ] },
    Message { name: "etcdserverpb.WatchCreateRequest", fields: &[
        Field { number: 1, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "range_end", json_name: "rangeEnd", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "start_revision", json_name: "startRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "progress_notify", json_name: "progressNotify", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 5, name: "filters", json_name: "filters", kind: Kind::Enum(6), repeated: true, oneof: None },
        Field { number: 6, name: "prev_kv", json_name: "prevKv", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 7, name: "watch_id", json_name: "watchId", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 8, name: "fragment", json_name: "fragment", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.WatchCancelRequest", fields: &[
        Field { number: 1, name: "watch_id", json_name: "watchId", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.WatchProgressRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.WatchResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "watch_id", json_name: "watchId", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "created", json_name: "created", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 4, name: "canceled", json_name: "canceled", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 5, name: "compact_revision", json_name: "compactRevision", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 6, name: "cancel_reason", json_name: "cancelReason", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 7, name: "fragment", json_name: "fragment", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 11, name: "events", json_name: "events", kind: Kind::Message(5), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseGrantRequest", fields: &[
        Field { number: 1, name: "TTL", json_name: "TTL", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 2, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseGrantResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "TTL", json_name: "TTL", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "error", json_name: "error", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseRevokeRequest", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseRevokeResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseCheckpoint", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 2, name: "remaining_TTL", json_name: "remainingTTL", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseCheckpointRequest", fields: &[
        Field { number: 1, name: "checkpoints", json_name: "checkpoints", kind: Kind::Message(36), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseCheckpointResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseKeepAliveRequest", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseKeepAliveResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "TTL", json_name: "TTL", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseTimeToLiveRequest", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 2, name: "keys", json_name: "keys", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseTimeToLiveResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "TTL", json_name: "TTL", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "grantedTTL", json_name: "grantedTTL", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 5, name: "keys", json_name: "keys", kind: Kind::Bytes, repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseLeasesRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.LeaseStatus", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.LeaseLeasesResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "leases", json_name: "leases", kind: Kind::Message(44), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.Member", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 2, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 3, name: "peerURLs", json_name: "peerURLs", kind: Kind::String, repeated: true, oneof: None },
        Field { number: 4, name: "clientURLs", json_name: "clientURLs", kind: Kind::String, repeated: true, oneof: None },
        Field { number: 5, name: "isLearner", json_name: "isLearner", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberAddRequest", fields: &[
        Field { number: 1, name: "peerURLs", json_name: "peerURLs", kind: Kind::String, repeated: true, oneof: None },
        Field { number: 2, name: "isLearner", json_name: "isLearner", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberAddResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "member", json_name: "member", kind: Kind::Message(46), repeated: false, oneof: None },
        Field { number: 3, name: "members", json_name: "members", kind: Kind::Message(46), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberRemoveRequest", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Uint64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberRemoveResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "members", json_name: "members", kind: Kind::Message(46), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberUpdateRequest", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 2, name: "peerURLs", json_name: "peerURLs", kind: Kind::String, repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberUpdateResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "members", json_name: "members", kind: Kind::Message(46), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberListRequest", fields: &[
        Field { number: 1, name: "linearizable", json_name: "linearizable", kind: Kind::Bool, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberListResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "members", json_name: "members", kind: Kind::Message(46), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberPromoteRequest", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Uint64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.MemberPromoteResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "members", json_name: "members", kind: Kind::Message(46), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.DefragmentRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.DefragmentResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.MoveLeaderRequest", fields: &[
        Field { number: 1, name: "targetID", json_name: "targetID", kind: Kind::Uint64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.MoveLeaderResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AlarmRequest", fields: &[
        Field { number: 1, name: "action", json_name: "action", kind: Kind::Enum(7), repeated: false, oneof: None },
        Field { number: 2, name: "memberID", json_name: "memberID", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 3, name: "alarm", json_name: "alarm", kind: Kind::Enum(9), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AlarmMember", fields: &[
        Field { number: 1, name: "memberID", json_name: "memberID", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 2, name: "alarm", json_name: "alarm", kind: Kind::Enum(9), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AlarmResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "alarms", json_name: "alarms", kind: Kind::Message(62), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.DowngradeRequest", fields: &[
        Field { number: 1, name: "action", json_name: "action", kind: Kind::Enum(8), repeated: false, oneof: None },
        Field { number: 2, name: "version", json_name: "version", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.DowngradeResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "version", json_name: "version", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.DowngradeVersionTestRequest", fields: &[
        Field { number: 1, name: "ver", json_name: "ver", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.StatusRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.StatusResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "version", json_name: "version", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 3, name: "dbSize", json_name: "dbSize", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "leader", json_name: "leader", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 5, name: "raftIndex", json_name: "raftIndex", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 6, name: "raftTerm", json_name: "raftTerm", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 7, name: "raftAppliedIndex", json_name: "raftAppliedIndex", kind: Kind::Uint64, repeated: false, oneof: None },
        Field { number: 8, name: "errors", json_name: "errors", kind: Kind::String, repeated: true, oneof: None },
        Field { number: 9, name: "dbSizeInUse", json_name: "dbSizeInUse", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 10, name: "isLearner", json_name: "isLearner", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 11, name: "storageVersion", json_name: "storageVersion", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 12, name: "dbSizeQuota", json_name: "dbSizeQuota", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 13, name: "downgradeInfo", json_name: "downgradeInfo", kind: Kind::Message(69), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.DowngradeInfo", fields: &[
        Field { number: 1, name: "enabled", json_name: "enabled", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 2, name: "targetVersion", json_name: "targetVersion", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthEnableRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.AuthDisableRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.AuthStatusRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.AuthenticateRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 2, name: "password", json_name: "password", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserAddRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 2, name: "password", json_name: "password", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 3, name: "options", json_name: "options", kind: Kind::Message(0), repeated: false, oneof: None },
        Field { number: 4, name: "hashedPassword", json_name: "hashedPassword", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserGetRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserDeleteRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserChangePasswordRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 2, name: "password", json_name: "password", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 3, name: "hashedPassword", json_name: "hashedPassword", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserGrantRoleRequest", fields: &[
        Field { number: 1, name: "user", json_name: "user", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 2, name: "role", json_name: "role", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserRevokeRoleRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 2, name: "role", json_name: "role", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleAddRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleGetRequest", fields: &[
        Field { number: 1, name: "role", json_name: "role", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserListRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.AuthRoleListRequest", fields: &[
    ] },
    Message { name: "etcdserverpb.AuthRoleDeleteRequest", fields: &[
        Field { number: 1, name: "role", json_name: "role", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleGrantPermissionRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 2, name: "perm", json_name: "perm", kind: Kind::Message(2), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleRevokePermissionRequest", fields: &[
        Field { number: 1, name: "role", json_name: "role", kind: Kind::String, repeated: false, oneof: None },
        Field { number: 2, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "range_end", json_name: "rangeEnd", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthEnableResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthDisableResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthStatusResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "enabled", json_name: "enabled", kind: Kind::Bool, repeated: false, oneof: None },
        Field { number: 3, name: "authRevision", json_name: "authRevision", kind: Kind::Uint64, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthenticateResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "token", json_name: "token", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserAddResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserGetResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "roles", json_name: "roles", kind: Kind::String, repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserDeleteResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserChangePasswordResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserGrantRoleResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserRevokeRoleResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleAddResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleGetResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "perm", json_name: "perm", kind: Kind::Message(2), repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleListResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "roles", json_name: "roles", kind: Kind::String, repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthUserListResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "users", json_name: "users", kind: Kind::String, repeated: true, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleDeleteResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleGrantPermissionResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "etcdserverpb.AuthRoleRevokePermissionResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "v3lockpb.LockRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "lease", json_name: "lease", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "v3lockpb.LockResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "v3lockpb.UnlockRequest", fields: &[
        Field { number: 1, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "v3lockpb.UnlockResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.CampaignRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "lease", json_name: "lease", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "value", json_name: "value", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.CampaignResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "leader", json_name: "leader", kind: Kind::Message(110), repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.LeaderKey", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 2, name: "key", json_name: "key", kind: Kind::Bytes, repeated: false, oneof: None },
        Field { number: 3, name: "rev", json_name: "rev", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 4, name: "lease", json_name: "lease", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.LeaderRequest", fields: &[
        Field { number: 1, name: "name", json_name: "name", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.LeaderResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
        Field { number: 2, name: "kv", json_name: "kv", kind: Kind::Message(4), repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.ResignRequest", fields: &[
        Field { number: 1, name: "leader", json_name: "leader", kind: Kind::Message(110), repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.ResignResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.ProclaimRequest", fields: &[
        Field { number: 1, name: "leader", json_name: "leader", kind: Kind::Message(110), repeated: false, oneof: None },
        Field { number: 2, name: "value", json_name: "value", kind: Kind::Bytes, repeated: false, oneof: None },
    ] },
    Message { name: "v3electionpb.ProclaimResponse", fields: &[
        Field { number: 1, name: "header", json_name: "header", kind: Kind::Message(6), repeated: false, oneof: None },
    ] },
    Message { name: "grpc.health.v1.HealthCheckRequest", fields: &[
        Field { number: 1, name: "service", json_name: "service", kind: Kind::String, repeated: false, oneof: None },
    ] },
    Message { name: "grpc.health.v1.HealthCheckResponse", fields: &[
        Field { number: 1, name: "status", json_name: "status", kind: Kind::Enum(10), repeated: false, oneof: None },
    ] },
    Message { name: "leasepb.Lease", fields: &[
        Field { number: 1, name: "ID", json_name: "ID", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 2, name: "TTL", json_name: "TTL", kind: Kind::Int64, repeated: false, oneof: None },
        Field { number: 3, name: "RemainingTTL", json_name: "RemainingTTL", kind: Kind::Int64, repeated: false, oneof: None },
    ] },
];

/// Every enum. Fields refer to it by position.
pub static ENUMS: [Enum; 11] = [
    Enum { name: "authpb.Permission.Type", values: &[(0, "READ"), (1, "WRITE"), (2, "READWRITE")] },
    Enum { name: "mvccpb.Event.EventType", values: &[(0, "PUT"), (1, "DELETE")] },
    Enum { name: "etcdserverpb.RangeRequest.SortOrder", values: &[(0, "NONE"), (1, "ASCEND"), (2, "DESCEND")] },
    Enum { name: "etcdserverpb.RangeRequest.SortTarget", values: &[(0, "KEY"), (1, "VERSION"), (2, "CREATE"), (3, "MOD"), (4, "VALUE")] },
    Enum { name: "etcdserverpb.Compare.CompareResult", values: &[(0, "EQUAL"), (1, "GREATER"), (2, "LESS"), (3, "NOT_EQUAL")] },
    Enum { name: "etcdserverpb.Compare.CompareTarget", values: &[(0, "VERSION"), (1, "CREATE"), (2, "MOD"), (3, "VALUE"), (4, "LEASE")] },
    Enum { name: "etcdserverpb.WatchCreateRequest.FilterType", values: &[(0, "NOPUT"), (1, "NODELETE")] },
    Enum { name: "etcdserverpb.AlarmRequest.AlarmAction", values: &[(0, "GET"), (1, "ACTIVATE"), (2, "DEACTIVATE")] },
    Enum { name: "etcdserverpb.DowngradeRequest.DowngradeAction", values: &[(0, "VALIDATE"), (1, "ENABLE"), (2, "CANCEL")] },
    Enum { name: "etcdserverpb.AlarmType", values: &[(0, "NONE"), (1, "NOSPACE"), (2, "CORRUPT")] },
    Enum { name: "grpc.health.v1.HealthCheckResponse.ServingStatus", values: &[(0, "UNKNOWN"), (1, "SERVING"), (2, "NOT_SERVING"), (3, "SERVICE_UNKNOWN")] },
];

/// Every call of every service.
pub static METHODS: [GatewayMethod; 51] = [
    GatewayMethod { path: "/etcdserverpb.KV/Range", input: 7, output: 8, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.KV/RangeStream", input: 7, output: 9, client_streams: false, server_streams: true },
    GatewayMethod { path: "/etcdserverpb.KV/Put", input: 10, output: 11, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.KV/DeleteRange", input: 12, output: 13, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.KV/Txn", input: 17, output: 18, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.KV/Compact", input: 19, output: 20, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Watch/Watch", input: 27, output: 31, client_streams: true, server_streams: true },
    GatewayMethod { path: "/etcdserverpb.Lease/LeaseGrant", input: 32, output: 33, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Lease/LeaseRevoke", input: 34, output: 35, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Lease/LeaseKeepAlive", input: 39, output: 40, client_streams: true, server_streams: true },
    GatewayMethod { path: "/etcdserverpb.Lease/LeaseTimeToLive", input: 41, output: 42, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Lease/LeaseLeases", input: 43, output: 45, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Cluster/MemberAdd", input: 47, output: 48, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Cluster/MemberRemove", input: 49, output: 50, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Cluster/MemberUpdate", input: 51, output: 52, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Cluster/MemberList", input: 53, output: 54, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Cluster/MemberPromote", input: 55, output: 56, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Maintenance/Alarm", input: 61, output: 63, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Maintenance/Status", input: 67, output: 68, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Maintenance/Defragment", input: 57, output: 58, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Maintenance/Hash", input: 21, output: 24, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Maintenance/HashKV", input: 22, output: 23, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Maintenance/Snapshot", input: 25, output: 26, client_streams: false, server_streams: true },
    GatewayMethod { path: "/etcdserverpb.Maintenance/MoveLeader", input: 59, output: 60, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Maintenance/Downgrade", input: 64, output: 65, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/AuthEnable", input: 70, output: 87, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/AuthDisable", input: 71, output: 88, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/AuthStatus", input: 72, output: 89, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/Authenticate", input: 73, output: 90, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/UserAdd", input: 74, output: 91, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/UserGet", input: 75, output: 92, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/UserList", input: 82, output: 100, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/UserDelete", input: 76, output: 93, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/UserChangePassword", input: 77, output: 94, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/UserGrantRole", input: 78, output: 95, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/UserRevokeRole", input: 79, output: 96, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/RoleAdd", input: 80, output: 97, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/RoleGet", input: 81, output: 98, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/RoleList", input: 83, output: 99, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/RoleDelete", input: 84, output: 101, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/RoleGrantPermission", input: 85, output: 102, client_streams: false, server_streams: false },
    GatewayMethod { path: "/etcdserverpb.Auth/RoleRevokePermission", input: 86, output: 103, client_streams: false, server_streams: false },
    GatewayMethod { path: "/v3lockpb.Lock/Lock", input: 104, output: 105, client_streams: false, server_streams: false },
    GatewayMethod { path: "/v3lockpb.Lock/Unlock", input: 106, output: 107, client_streams: false, server_streams: false },
    GatewayMethod { path: "/v3electionpb.Election/Campaign", input: 108, output: 109, client_streams: false, server_streams: false },
    GatewayMethod { path: "/v3electionpb.Election/Proclaim", input: 115, output: 116, client_streams: false, server_streams: false },
    GatewayMethod { path: "/v3electionpb.Election/Leader", input: 111, output: 112, client_streams: false, server_streams: false },
    GatewayMethod { path: "/v3electionpb.Election/Observe", input: 111, output: 112, client_streams: false, server_streams: true },
    GatewayMethod { path: "/v3electionpb.Election/Resign", input: 113, output: 114, client_streams: false, server_streams: false },
    GatewayMethod { path: "/grpc.health.v1.Health/Check", input: 117, output: 118, client_streams: false, server_streams: false },
    GatewayMethod { path: "/grpc.health.v1.Health/Watch", input: 117, output: 118, client_streams: false, server_streams: true },
];
