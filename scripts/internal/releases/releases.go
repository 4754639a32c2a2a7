// Package releases finds the newest release of the checkout. Checks compare the working tree with
// it, and tests upgrade from it.
package releases

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Tag is the tag of a release, such as v0.1.0.
type Tag string

// numbers returns a tag's major, minor and patch number; nil for other tags, such as v1.0.0-rc1.
func numbers(tag string) []int {
	n := make([]int, 3)
	version := strings.TrimPrefix(tag, "v")
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &n[0], &n[1], &n[2]); err != nil || fmt.Sprintf("%d.%d.%d", n[0], n[1], n[2]) != version {
		return nil
	}
	return n
}

// Reaches reports whether this release is the given version (0.3.0) or a later one.
func (t Tag) Reaches(version string) (bool, error) {
	wanted := numbers(version)
	if wanted == nil {
		return false, fmt.Errorf("%q is not a version such as 0.3.0", version)
	}
	return slices.Compare(numbers(string(t)), wanted) >= 0, nil
}

// Newest returns the tag with the highest version; empty if no tag is that of a release.
func Newest(tags []string) Tag {
	var newest Tag
	for _, tag := range tags {
		if strings.HasPrefix(tag, "v") && slices.Compare(numbers(tag), numbers(string(newest))) > 0 {
			newest = Tag(tag)
		}
	}
	return newest
}

// Of returns the newest release of the git clone at root; empty while nothing is released.
func Of(ctx context.Context, root string) (Tag, error) {
	cmd := exec.CommandContext(ctx, "git", "tag", "--list", "v*")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("list the tags: %w", err)
	}
	return Newest(strings.Fields(string(out))), nil
}
