//! The service `etcdserverpb.Watch`: one stream carries the requests and the events of any number
//! of watches. Requests are read while messages are on their way, and the Front gives the next
//! messages when the socket has taken those before.

use bytes::Bytes;
use member::etcd_front::WatchMessages;

use super::client::Client;
use super::methods::Method;
use super::runtime::{FromWatch, status_of};
use crate::grpc::{Call, End, Message, Outgoing, PREFIX_BYTES, Room, SharesBySize, Status, frame};

enum Step {
    Taken,
    Messages(FromWatch),
    Request(Option<Message>),
}

/// Serves a stream until its client sends no more, or is gone, or the Front ends it for want of a
/// leader that the client requires.
///
/// # Errors
/// The call ends with a status, or its client is gone.
pub(super) async fn answer(
    client: &Client,
    call: &mut Call<Method>,
    shares: &SharesBySize,
) -> Result<(), End> {
    let watch = client.open_watch(client.requires_leader);
    let mut is_sending = false;
    loop {
        let (requests, answers) = (&mut call.requests, &mut call.answers);
        let step = tokio::select! {
            biased;
            taken = answers.taken(), if is_sending => taken.map(|()| Step::Taken)?,
            messages = watch.next(), if !is_sending => Step::Messages(messages),
            request = requests.next(), if watch.accepts() => Step::Request(request?),
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
            Step::Request(None) => return Ok(()),
        }
    }
}

/// What a client gets next, not encoded yet.
enum Next {
    Messages(WatchMessages),
    /// One large message, of so many bytes.
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
