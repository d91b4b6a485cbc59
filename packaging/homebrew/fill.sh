#!/bin/sh
# Prints the formula of a release: sh fill.sh VERSION ADDRESS_OF_RELEASES SHA256SUMS >recount.rb
set -eu
formula=$(sed "s|@VERSION@|$1|g; s|@RELEASES@|$2|g" "$(dirname "$0")/recount.rb")
for target in $(echo "$formula" | sed -n 's/.*"@SHA256:\(.*\)@".*/\1/p'); do
    sum=$(awk -v name="recount-$1-$target.tar.gz" '$2 == name { print $1 }' "$3")
    [ -n "$sum" ] || { echo "fill.sh: $3 has no archive for $target" >&2; exit 1; }
    formula=$(echo "$formula" | sed "s/@SHA256:$target@/$sum/")
done
echo "$formula"
