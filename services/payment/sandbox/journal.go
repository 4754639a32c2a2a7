package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// openJournal opens a file of one JSON entry per line, and applies the entries. An incomplete last
// line is removed: the process died while it wrote the line, before it sent the answer.
func openJournal(path string, apply func(entry)) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	size, err := replay(file, apply)
	if err == nil {
		err = file.Truncate(size)
	}
	if err == nil {
		_, err = file.Seek(size, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", path, err), file.Close())
	}
	return file, nil
}

// replay applies the complete entries of the file and returns their size in bytes.
func replay(file *os.File, apply func(entry)) (int64, error) {
	var size int64
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return 0, fmt.Errorf("at byte %d: %w", size, err)
		}
		apply(e)
		size += int64(len(line))
	}
}

// appendJournal writes an entry with one system call, so that it is not lost if the process
// crashes. If the machine crashes, it may be.
func appendJournal(file *os.File, e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return err
}
