package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"urr.guru/pkg/fairdraw"
)

// limit of what is read: far above the largest draw.
const limit = 1 << 30

func (a *arguments) readEntries(ctx context.Context) ([]byte, error) {
	source := cmp.Or(a.entries, entriesBeside(a.source))
	if a.entries == "" && isURL(a.source) {
		var err error
		if source, err = url.JoinPath(a.source, "entries"); err != nil {
			return nil, err
		}
	}
	return a.read(ctx, source)
}

func entriesBeside(file string) string { return file + ".entries" }

func (a *arguments) read(ctx context.Context, source string) ([]byte, error) {
	if !isURL(source) {
		return os.ReadFile(source)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", source, response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if len(body) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", source, limit)
	}
	return body, nil
}

func readReceipt(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	if !strings.HasPrefix(text, "{") {
		return text, nil
	}
	var answer struct {
		Receipt string `json:"receipt"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if answer.Receipt == "" {
		return "", fmt.Errorf("%s: no receipt", file)
	}
	return answer.Receipt, nil
}

// readEarlier reads a copy. One that was not made by --save counts as saved when the file was
// written.
func readEarlier(file string) (*fairdraw.Document, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	document, err := fairdraw.ParseDocument(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if document.SavedAt == 0 {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		document.SavedAt = info.ModTime().UnixMilli()
	}
	return document, nil
}

// save writes the document with the time, and its entries beside it. It replaces no file: an earlier
// copy is evidence.
func save(file string, raw, entries []byte, at time.Time) error {
	document := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &document); err != nil {
		return err
	}
	document["savedAt"] = json.RawMessage(fmt.Sprint(at.UnixMilli()))
	raw, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	if err := create(file, append(raw, '\n')); err != nil {
		return err
	}
	if entries == nil {
		return nil
	}
	return create(entriesBeside(file), entries)
}

func create(file string, content []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
