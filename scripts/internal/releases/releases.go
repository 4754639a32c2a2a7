// Package releases finds the newest release of a checkout. Checks compare the working tree with
// that release, and tests upgrade from it.
package releases

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Tag is the git tag of a release, such as v0.1.0.
type Tag string

// versionNumbers returns a tag's major, minor and patch number, or nil for tags such as v1.0.0-rc1.
func versionNumbers(tag string) []int {
	n := make([]int, 3)
	version := strings.TrimPrefix(tag, "v")
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &n[0], &n[1], &n[2]); err != nil || fmt.Sprintf("%d.%d.%d", n[0], n[1], n[2]) != version {
		return nil
	}
	return n
}

// Reaches reports whether the release has the given version, such as 0.3.0, or a later one.
func (t Tag) Reaches(version string) (bool, error) {
	wanted := versionNumbers(version)
	if wanted == nil {
		return false, fmt.Errorf("%q is not a version such as 0.3.0", version)
	}
	return slices.Compare(versionNumbers(string(t)), wanted) >= 0, nil
}

// Newest returns the tag with the highest version, or "" if no tag is that of a release.
func Newest(tags []string) Tag {
	var newest Tag
	for _, tag := range tags {
		if strings.HasPrefix(tag, "v") && slices.Compare(versionNumbers(tag), versionNumbers(string(newest))) > 0 {
			newest = Tag(tag)
		}
	}
	return newest
}

// Of returns the newest release of the git clone at root, or "" if there is none.
func Of(ctx context.Context, root string) (Tag, error) {
	cmd := exec.CommandContext(ctx, "git", "tag", "--list", "v*")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("list the tags: %w", err)
	}
	return Newest(strings.Fields(string(out))), nil
}
