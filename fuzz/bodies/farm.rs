//! What a farm reads: messages of its workers, the job log, and lines with commands.

use mpd_farm::command::{self, Template};
use mpd_farm::frame::{Decoder, FORMAT, ToFarm, ToWorker};
use mpd_farm::{halt, joblog};

use super::{Bytes, in_pieces};

/// Messages in any pieces are those of the whole stream. A message that was read is written and read again.
pub(crate) fn frames(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let cuts = bytes.some();
    let stream = bytes.rest();
    let mut whole = Decoder::new(FORMAT);
    whole.push(stream);
    let expected = payloads(&mut whole);
    let mut frames = Decoder::new(FORMAT);
    let mut found = Vec::new();
    in_pieces(stream, Bytes::new(cuts), |piece| {
        frames.push(piece);
        found.extend(payloads(&mut frames));
    });
    assert_eq!(found, expected);
    for payload in expected {
        let mut again = Vec::new();
        if let Ok(message) = ToFarm::decode(&payload) {
            message.encode(&mut again);
            assert_eq!(ToFarm::decode(&payload_of(&again)), Ok(message));
        }
        again.clear();
        if let Ok(message) = ToWorker::decode(&payload) {
            message.encode(&mut again);
            assert_eq!(ToWorker::decode(&payload_of(&again)), Ok(message));
        }
    }
}

fn payloads(frames: &mut Decoder) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Ok(Some(frame)) = frames.next_frame() {
        found.push(frame.payload.to_vec());
    }
    found
}

fn payload_of(frame: &[u8]) -> Vec<u8> {
    let mut frames = Decoder::new(FORMAT);
    frames.push(frame);
    frames.next_frame().expect("a frame").expect("a whole frame").payload.to_vec()
}

/// The complete lines of a job log are the same when a part of a line follows.
pub(crate) fn job_log(data: &[u8]) {
    let Ok((lines, length)) = read_log(data) else { return };
    assert!(length <= data.len());
    assert!(lines.iter().all(|line| line.id.0 > 0));
    assert_eq!(read_log(&data[..length]), Ok((lines.clone(), length)));
    if length > 0 {
        let torn = [&data[..length], b"7\th"].concat();
        assert_eq!(read_log(&torn), Ok((lines, length)));
    }
}

fn read_log(data: &[u8]) -> Result<(Vec<joblog::Recorded>, usize), joblog::InvalidLog> {
    let (mut reader, mut lines) = (joblog::Reader::default(), Vec::new());
    for piece in data.chunks(13) {
        reader.push(piece, |line| lines.push(line))?;
    }
    Ok((lines, usize::try_from(reader.finish()?).expect("a length of memory")))
}

/// A line that is split into words has them again after they are quoted.
pub(crate) fn commands(data: &[u8]) {
    let _ = Template::new(&[data.to_vec()]);
    let _ = halt::parse(&String::from_utf8_lossy(data));
    let Some(words) = command::words(data) else { return };
    if words.iter().any(|word| word.contains(&b'\'')) {
        return;
    }
    let mut line = Vec::new();
    for word in &words {
        if !line.is_empty() {
            line.push(b' ');
        }
        command::quote(word, &mut line);
    }
    assert_eq!(command::words(&line), Some(words));
    let template = Template::new(&[b"cat".to_vec(), b"{}".to_vec()]).expect("words");
    assert_eq!(command::words(&template.line(1, b"x y")).map(|words| words.len()), Some(2));
}
