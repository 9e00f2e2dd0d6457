//! Limits of the format, and of what a reader holds.

/// The version of the format. It changes if an older reader would misread a file.
pub const FORMAT_VERSION: u64 = 1;
/// Bytes of a frame before its body.
pub const FRAME_HEAD_BYTES: usize = 16;
/// Bytes of a body: a reader holds one, and a length beyond it is damage.
pub const MAX_BODY_BYTES: usize = 1 << 20;
/// Bytes after which a writer closes a frame. Far from the limit, since the events of a thread's ring may still be
/// appended.
pub const FULL_BODY_BYTES: usize = 1 << 18;
/// Shapes that are numbered at once. A step of training has some hundred; the writer begins afresh after more.
pub const MAX_SHAPES: usize = 4096;
/// Frames from one fresh frame to the next at most: what a damaged byte can cost.
pub const MAX_STALE_FRAMES: u32 = 128;
/// Communicators of a process that a reader holds.
pub const MAX_COMMS: u32 = 1 << 16;
/// Bytes of a name: of a host or a communicator.
pub const MAX_NAME_BYTES: usize = 256;
/// Calls that wait for their later parts (launch, end, kernel) in a reader: some megabytes.
pub const MAX_OPEN_CALLS: usize = 16_384;
/// Bytes that are read at once where the next frame is searched after damage.
pub(crate) const SEARCH_BYTES: usize = 4096;
/// Bytes of frames with a wrong checksum after which frames inside of such a frame are not searched any more: a
/// file made of false heads would be summed again from each of its bytes.
pub(crate) const MAX_FAILED_BYTES: usize = 1 << 26;
