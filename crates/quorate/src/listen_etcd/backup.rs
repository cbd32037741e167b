//! `Maintenance.Snapshot`: sends a client the state of this member as a database file of etcd, in
//! pieces, and then the file's hash.

use std::io::{self, Read};

use bytes::Bytes;
use etcd::backup::STORAGE_VERSION;
use etcd::pb::{Message, etcdserverpb as pb};
use grpc::{Call, End, Room, SharesBySize, Status, frame};
use grpc_code::Code;
use member::fronts::etcd::audit::Operation;
use member::fronts::etcd::{CallRefused, Need};
use sha2::{Digest, Sha256};

use super::backup_file::BackupFile;
use super::client::CallingClient;
use super::limits::BACKUP_READ_BYTES;
use super::methods::FaceMethod;
use super::runtime::status_of;

/// How many bytes of the file one message carries (`snapshotSendBufferSize`).
const BLOB_BYTES: usize = 32 * 1024;

/// Answers a call of `Maintenance.Snapshot`.
///
/// # Errors
/// The call ends with a status, or its client is gone.
pub(super) async fn answer(
    client: &CallingClient,
    call: &mut Call<FaceMethod>,
    shares: &SharesBySize,
) -> Result<(), End> {
    let message = call.requests.only().await?;
    let download = Download::begin(client, message.bytes);
    let mut download = call.unless_ended(download).await?.map_err(NoBackup::status)?;
    while let Some(responses) =
        call.unless_ended(download.next()).await?.map_err(NoBackup::status)?
    {
        let mut out = Vec::with_capacity(BACKUP_READ_BYTES + BACKUP_READ_BYTES / 64);
        for response in &responses {
            frame(&mut out, |out| write(response, out))?;
        }
        // A client that takes a byte now and then would never be timed out, so the limit is on the
        // whole piece.
        tokio::select! {
            sent = send(call, out, shares) => sent?,
            () = client.runtime.member.backups.overdue() => return Err(End::Gone),
        }
    }
    Ok(())
}

/// Sends a piece of the file, and waits until the client has taken it.
async fn send(
    call: &mut Call<FaceMethod>,
    piece: Vec<u8>,
    shares: &SharesBySize,
) -> Result<(), End> {
    let mut room = Room::new(shares.of(piece.len()));
    if !room.try_grow_to(piece.len()) {
        call.unless_ended(room.grow_to(piece.len())).await?;
    }
    call.answers.send(Bytes::from(piece), Some(room)).await?;
    call.answers.taken().await
}

/// Why a client gets no backup, or not the rest of it.
#[derive(Debug)]
pub(super) enum NoBackup {
    /// The client has no permission, or too many backups are under way.
    Refused(CallRefused),
    /// The backup could not be made or read. The gRPC code is `Unknown`, as for any such error in
    /// etcd.
    Failed(String),
}

impl NoBackup {
    fn of(error: impl std::fmt::Display) -> NoBackup {
        let text = format!("the backup failed: {error}");
        tracing::error!("{text}");
        NoBackup::Failed(text)
    }

    /// The refusal as the audit log shows it; it does not say why a backup failed.
    fn refused(&self) -> CallRefused {
        match self {
            NoBackup::Refused(refused) => *refused,
            NoBackup::Failed(_) => CallRefused::Unknown("the backup failed"),
        }
    }

    fn status(self) -> Status {
        match self {
            NoBackup::Refused(refused) => status_of(refused),
            NoBackup::Failed(text) => Status::new(Code::Unknown, text),
        }
    }

    /// The code and the text for a client of the JSON gateway.
    pub fn code_and_text(self) -> (Code, String) {
        match self {
            NoBackup::Refused(refused) => {
                let (code, text) = refused.code_and_text();
                (code, text.to_string())
            }
            NoBackup::Failed(text) => (Code::Unknown, text),
        }
    }
}

/// A backup while a client downloads it.
pub(super) struct Download {
    /// The file, and the hash of the bytes read so far; `None` once the hash was returned.
    rest: Option<(BackupFile, Sha256)>,
    bytes_left: u64,
}

impl Download {
    /// Checks the client's permission, makes a backup, and writes a line to the audit log.
    ///
    /// # Errors
    /// The client may not have a backup, or it cannot be made.
    pub async fn begin(client: &CallingClient, request: Bytes) -> Result<Download, NoBackup> {
        let mut line = client.begin_line(|| Some(Operation::backup()));
        let made = Download::make(client, request).await;
        if let Some(audited) = &mut line {
            audited.line.tell_result(made.as_ref().map(drop).map_err(NoBackup::refused));
        }
        made
    }

    async fn make(client: &CallingClient, request: Bytes) -> Result<Download, NoBackup> {
        let decoded = pb::SnapshotRequest::decode(request).map_err(|_| CallRefused::Malformed);
        decoded.map_err(NoBackup::Refused)?;
        client.require(Need::Root).await.map_err(NoBackup::Refused)?;
        let member = &client.runtime.member;
        let open = member.backups.begin().await;
        let open = open.ok_or(NoBackup::Refused(etcd::Error::TooManyRequests.into()))?;
        let made = member.backups.make(&member.node, open).await;
        let made = made.map_err(|error| NoBackup::of(format!("{error:#}")))?;
        let bytes_left = made.bytes;
        tracing::info!("an etcd client gets a backup of {bytes_left} bytes");
        Ok(Download { rest: Some((made, Sha256::new())), bytes_left })
    }

    /// The next responses. The last response has the hash; then `None`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<pb::SnapshotResponse>>, NoBackup> {
        let Some((mut made, mut hash)) = self.rest.take() else { return Ok(None) };
        let wanted = self.bytes_left.min(BACKUP_READ_BYTES as u64) as usize;
        if wanted == 0 {
            return Ok(Some(vec![response(0, hash.finalize().to_vec().into())]));
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; wanted];
            made.file.read_exact(&mut bytes)?;
            hash.update(&bytes);
            Ok::<_, io::Error>((bytes, (made, hash)))
        });
        let (bytes, rest) = read.await.map_err(NoBackup::of)?.map_err(NoBackup::of)?;
        self.rest = Some(rest);
        let mut bytes = Bytes::from(bytes);
        let mut responses = Vec::new();
        while !bytes.is_empty() {
            let blob = bytes.split_to(bytes.len().min(BLOB_BYTES));
            self.bytes_left -= blob.len() as u64;
            responses.push(response(self.bytes_left, blob));
        }
        Ok(Some(responses))
    }
}

fn response(remaining_bytes: u64, blob: Bytes) -> pb::SnapshotResponse {
    let version = STORAGE_VERSION.to_string();
    pb::SnapshotResponse { header: None, remaining_bytes, blob, version }
}

/// Appends the encoded response.
pub(super) fn write(response: &pb::SnapshotResponse, out: &mut Vec<u8>) {
    response.encode(out).expect("a vector grows");
}
