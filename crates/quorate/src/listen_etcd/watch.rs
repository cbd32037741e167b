//! Serves `etcdserverpb.Watch`: a stream carries the requests and the events of any number of
//! watches. Requests are read even while messages are being sent. The Front gives the next messages
//! once the socket has taken the last ones.

use bytes::Bytes;
use grpc::{Call, End, Message, Outgoing, PREFIX_BYTES, Room, SharesBySize, Status, frame};
use member::fronts::etcd::WatchMessages;

use super::client::CallingClient;
use super::methods::FaceMethod;
use super::runtime::{FromWatch, status_of};

enum Step {
    Taken,
    Messages(FromWatch),
    Request(Option<Message>),
}

/// Serves a stream until its client is gone, or the Front ends it because there is no leader and
/// the client requires one. As in etcd, a client that closes its side still gets events
/// (`watchServer.Watch`: the end of `recvLoop` ends nothing else).
///
/// # Errors
/// The call ends with a status, or its client is gone.
pub(super) async fn answer(
    client: &CallingClient,
    call: &mut Call<FaceMethod>,
    shares: &SharesBySize,
) -> Result<(), End> {
    let watch = client.open_watch(client.requires_leader);
    let (deadline, mut is_sending, mut sends_more) = (call.deadline, false, true);
    loop {
        let (requests, answers) = (&mut call.requests, &mut call.answers);
        // While requests are read, they show whether the client is gone; after that, only the
        // sending side does.
        let taken = async {
            match is_sending {
                true => answers.taken().await,
                false => Err(answers.gone().await),
            }
        };
        let step = tokio::select! {
            biased;
            taken = deadline.bound(taken), if is_sending || !sends_more => {
                taken?.map(|()| Step::Taken)?
            }
            messages = watch.next(), if !is_sending => Step::Messages(messages),
            request = requests.next(), if sends_more && watch.accepts() => {
                Step::Request(request?)
            }
        };
        match step {
            Step::Taken => {
                is_sending = false;
                watch.taken();
            }
            Step::Messages(FromWatch::Messages(messages)) => {
                let next = Next::of(messages)?;
                let bytes = next.bytes();
                let mut room = Room::new(shares.of(bytes));
                if !room.try_grow_to(bytes) {
                    call.unless_ended(room.grow_to(bytes)).await?;
                }
                call.answers.hand_over(next.outgoing()?, Some(room));
                is_sending = true;
            }
            Step::Messages(FromWatch::Accepts) => {}
            Step::Messages(FromWatch::Ended(refused)) => return Err(status_of(refused).into()),
            Step::Request(Some(request)) => watch.request(request.bytes),
            Step::Request(None) => sends_more = false,
        }
    }
}

/// The next thing to send on a stream, not encoded yet.
enum Next {
    Messages(WatchMessages),
    /// One large message, and its length in bytes.
    Large(usize, Outgoing),
}

impl Next {
    /// # Errors
    /// A message is too long to be sent.
    fn of(messages: WatchMessages) -> Result<Next, Status> {
        match messages.into_pieces() {
            Ok(mut pieces) => {
                let bytes = pieces.bytes();
                let encode = move |out: &mut Vec<u8>| {
                    pieces.write(out);
                };
                Ok(Next::Large(bytes, Outgoing::in_pieces(bytes, Box::new(encode))?))
            }
            Err(messages) => Ok(Next::Messages(messages)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Next::Messages(messages) => {
                messages.iter().map(|message| PREFIX_BYTES + message.bytes()).sum()
            }
            Next::Large(bytes, _) => *bytes,
        }
    }

    fn outgoing(self) -> Result<Outgoing, Status> {
        match self {
            Next::Messages(ref messages) => {
                let mut out = Vec::with_capacity(self.bytes());
                for message in messages.iter() {
                    frame(&mut out, |out| message.write(out))?;
                }
                Ok(Bytes::from(out).into())
            }
            Next::Large(_, outgoing) => Ok(outgoing),
        }
    }
}
