package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"urr.guru/pkg/fairdraw"
)

// maxSize is the most bytes of a file or response. The largest draw has far fewer.
const maxSize = 1 << 30

// pieceSize is the number of bytes of a full chunk of entries; each entry is an id of 16 bytes.
const pieceSize = fairdraw.ChunkSize * 16

func isURL(s string) bool { return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") }

func entriesBeside(file string) string { return file + ".entries" }

// readSource reads a whole document, from a file or a URL.
func (a *arguments) readSource(ctx context.Context, source string) ([]byte, error) {
	body, err := a.open(ctx, source)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(body, maxSize+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if len(content) > maxSize {
		return nil, fmt.Errorf("%s: more than %d bytes", source, maxSize)
	}
	return content, nil
}

// open opens a file, or requests a URL and returns the body of the response.
func (a *arguments) open(ctx context.Context, source string) (io.ReadCloser, error) {
	if !isURL(source) {
		return os.Open(source)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", source, response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// readEntries yields the entries of the draw or shuffle in pieces, with one piece in memory.
func (a *arguments) readEntries(ctx context.Context) iter.Seq2[[]byte, error] {
	switch {
	case a.entries != "":
		return a.pieces(ctx, a.entries)
	case !isURL(a.source):
		return a.pieces(ctx, entriesBeside(a.source))
	}
	return func(yield func([]byte, error) bool) {
		base, err := url.JoinPath(a.source, "entries")
		switch {
		case err != nil:
			yield(nil, err)
		case a.algorithm == fairdraw.AlgorithmDraw:
			a.chunks(ctx, base)(yield)
		default: // the entries of a shuffle have a single URL
			a.pieces(ctx, base)(yield)
		}
	}
}

// chunks yields the chunks of a draw's entries, each read from its own URL. The first chunk that is
// not full is the last one.
func (a *arguments) chunks(ctx context.Context, base string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for n := range maxSize / pieceSize {
			size := 0
			for piece, err := range a.pieces(ctx, base+"/"+strconv.Itoa(n)) {
				if size += len(piece); !yield(piece, err) || err != nil {
					return
				}
			}
			if size != pieceSize {
				return
			}
		}
		yield(nil, fmt.Errorf("%s: more than %d bytes", base, maxSize))
	}
}

// pieces yields the content of a source in pieces of whole ids. Only one at a time is in memory.
func (a *arguments) pieces(ctx context.Context, source string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		body, err := a.open(ctx, source)
		if err != nil {
			yield(nil, err)
			return
		}
		defer body.Close()
		buffer := make([]byte, pieceSize)
		for read := 0; read <= maxSize; {
			n, err := io.ReadFull(body, buffer)
			read += n
			if n > 0 && !yield(buffer[:n], nil) {
				return
			}
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", source, err))
				return
			}
		}
		yield(nil, fmt.Errorf("%s: more than %d bytes", source, maxSize))
	}
}
