package sse

import (
	"bytes"
	"compress/flate"
	"sync"
)

// Frame is a piece of a stream that is sent to several clients. It is compressed once, for the
// first client that accepts compression.
type Frame struct {
	plain   []byte
	once    sync.Once
	deflate []byte
}

// NewFrame makes a Frame of complete lines.
func NewFrame(plain []byte) *Frame { return &Frame{plain: plain} }

// UnnamedEvent makes the frame of an event without a name.
func UnnamedEvent(data []byte) *Frame { return Event("", "", data) }

// Event makes the frame of an event. An empty name or id is left out. data has no line breaks.
func Event(name, id string, data []byte) *Frame {
	b := make([]byte, 0, len(name)+len(id)+len(data)+len("event: \nid: \ndata: \n\n"))
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(b, "data: "...), data...)
	return NewFrame(append(b, "\n\n"...))
}

// String returns the frame as it is sent uncompressed.
func (f *Frame) String() string { return string(f.plain) }

var (
	// gzipHeader is a gzip header without a file name, time or system (RFC 1952 §2.3.1).
	gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}
	// lastBlock is an empty DEFLATE block that is marked as the last one (RFC 1951 §3.2.3).
	lastBlock = []byte{0x03, 0x00}
)

var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // fails for unknown levels only
	return w
}}

// compressed returns the frame as DEFLATE blocks that end at a byte boundary and refer to no
// earlier data. So they fit into any stream, and one compression is enough for all clients. A
// compressor per stream would need 100 KB of memory, and compress each frame again.
func (f *Frame) compressed() []byte {
	f.once.Do(func() {
		var b bytes.Buffer
		w, _ := compressors.Get().(*flate.Writer)
		defer compressors.Put(w)
		w.Reset(&b)
		_, _ = w.Write(f.plain) // a bytes.Buffer returns no errors
		_ = w.Flush()
		f.deflate = b.Bytes()
	})
	return f.deflate
}
