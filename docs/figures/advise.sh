#!/usr/bin/env bash
# Thirty random demands: is what `weighbridge advise` chooses from one record the best in another record of all candidates?
#
#   cargo build --release --locked && docs/figures/advise.sh FOLDER [SEED] > docs/figures/advise.txt
#
# What it tests: whether a second record of the same candidates has the choice at its best, or says of it what the advice says. A choice that is
# not sure is wrong only where it does not name the best, so a machine on which few are sure tests little more than that.
#
# FOLDER keeps the records, and one that is there is not measured again. Two measure the same candidates independently, back to back: the advice
# computes from the first who holds a rate. The third has what was chosen at its rate. The demands are drawn by a generator of their own, so that a seed is the same demands everywhere. The exit code is 1 where a choice is wrong.
set -euo pipefail
cd "$(dirname "$0")/../.."

weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
folder=$(realpath -m "${1:?FOLDER}")
seed=${2:-30}
mkdir -p "$folder"

state=$seed
# Into `drawn`: one of the words, by a linear congruential generator of 31 bits, of which the upper ones count.
draw() {
    state=$(((state * 1103515245 + 12345) & 0x7fffffff))
    local index=$(((state >> 16) % $#))
    shift $index
    drawn=$1
}

# Of 96 that can be drawn each is asked once.
declare -A asked=()
while [ "${#asked[@]}" -lt 30 ]; do
    draw '64 --receivers 1 --cpus 1' '64 --receivers 1 --cpus 2' '16K --receivers 1 --cpus 1' '64 --receivers 4 --cpus 2'
    demands="--payload $drawn"
    draw 1000 20000 100000 && demands+=" --rate $drawn"
    draw same any && demands+=" --users $drawn"
    draw '' ' --pollable' && demands+=$drawn
    draw '' ' --survives-kill' && demands+=$drawn
    [ -n "${asked[$demands]:-}" ] || echo "$demands"
    asked[$demands]=1
done >"$folder/demands"

# What would be measured for demands, those at the rate last.
candidates() {
    # shellcheck disable=SC2086
    "$weighbridge" advise $1 --dry-run --quiet 2>/dev/null | sed '/^$/,$d' | grep -v '^[a-z-]*/noop/'
}

# What is chosen for demands, from the first record.
ask() {
    # shellcheck disable=SC2086
    "$weighbridge" advise $1 --record "$folder/asked.jsonl" --no-measure --format json --quiet || [ $? = 1 ]
}

# The case that is chosen for demands, and the same at their rate: a record may have one that nobody would measure for these demands.
chosen() {
    ask "$1" | jq -r 'select(.choice != null) | .question.rate as $rate | .contenders[.choice].case
        | ., (split("/") | .[:4] + (.[4:] + ["rate=\($rate)"] | sort) | join("/"))'
}

# A record of the cases on standard input.
measure() {
    [ -e "$folder/$1.jsonl" ] ||
        xargs "$weighbridge" run --budget "$2" --no-system-calls --html none --quiet --out "$folder/$1.jsonl" >/dev/null
}

sort -u "$folder/demands" | while read -r demands; do candidates "$demands"; done | sort -u >"$folder/all"
grep -v /rate= "$folder/all" >"$folder/cases"
measure asked 2m <"$folder/cases"
measure checked 1m <"$folder/cases"
sort -u "$folder/demands" | while read -r demands; do chosen "$demands"; done | grep /rate= | sort -u >"$folder/chosen"
measure paced 1m <"$folder/chosen"

# Of the candidates of a demand, in the second record: who meets it, with its interval there; the best; and the choice among them.
# shellcheck disable=SC2016
judge='
    def told: if . == "-" then . else split("/") as $id | [$id[1]] + $id[4:] | map(select(startswith("receivers=") | not)) | join(" ") end;
    def mechanism: split("/")[1];
    def polls: test("/wait=(poll|epoll)");
    (map(select(.kind == "case") | {(.case): (.properties.has // [])}) | add) as $has
    | (map(select(.kind == "summary") | {(.case): .}) | add) as $summary
    | ($paced | map(select(.kind == "summary") | {(.case): .series.held_per_s}) | add) as $held
    | $ask.question as $question
    | ($candidates | split("\n")) as $all
    | [$all[] | select($summary[.] != null and (test("/rate=") | not))] as $back_to_back
    | [$back_to_back[] | select(polls) | mechanism] as $polled
    | def twin: . as $case | [$all[] | select(test("/rate=") and (sub("/rate=[0-9]+"; "") == $case))][0] // "";
      def holds: (startswith("fan-out/") or $summary[.].median * $question.rate <= 1e9)
          and $summary[.].per_op.cpu_ns * $question.rate / 1e9 <= (if test("/same-cpu") then 1 else 2 end)
          and (twin as $twin | $held[$twin] == null or $held[$twin] >= 0.99 * $question.rate);
      def meets: $question.demands - $has[.] == []
          and (($question.demands | index("pollable") | not) or polls or (mechanism as $own | $polled | index($own) | not));
      [$back_to_back[] | select(meets and holds)
          | {case: ., median: $summary[.].median, ci: ($summary[.].ci95 // $summary[.].range)}] | sort_by(.median) as $meet
    | (if $ask.choice == null then null else $ask.contenders[$ask.choice].case end) as $chosen
    | ([$meet[] | select(.case == $chosen)][0]) as $choice
    | (if $chosen == null then (if $meet == [] then "nothing, rightly" else "WRONG: something meets them" end)
       elif $choice == null then (if $ask.is_sure then "WRONG" else "not sure" end) + ": does not hold the rate"
       elif $choice.case == $meet[0].case then "best"
       elif $choice.ci[0] <= $meet[0].ci[1] then "reaches the best"
       elif $ask.is_sure then "WRONG"
       elif [$ask.not_told_apart[] | $ask.contenders[.].case] | index($meet[0].case) then "not sure: names the best"
       else "WRONG: does not name the best" end) as $verdict
    | [if $ask.is_sure then "sure" else "not sure" end, ($chosen // "-" | told), ($meet[0].case // "-" | told),
       (if $choice then ($choice.median / $meet[0].median * 1000 | round / 1000 | tostring) else "-" end), $verdict]
    | @tsv'

{
    printf 'confidence\tchosen from the first\tbest of the second\ttimes\tverdict\tdemands\n'
    while read -r demands; do
        row=$(jq -rs --argjson ask "$(ask "$demands")" --slurpfile paced "$folder/paced.jsonl" --arg candidates "$({ candidates "$demands" && chosen "$demands"; } | sort -u)" "$judge" "$folder/checked.jsonl")
        printf '%s\t%s\n' "$row" "$demands"
    done <"$folder/demands"
} >"$folder/verdicts.tsv"

count() { tail -n +2 "$folder/verdicts.tsv" | cut -f "$1" | grep -c "$2" || true; }
cat <<END
docs/figures/advise.sh FOLDER $seed
$(jq -r 'select(.kind == "header") | "\(.machine.cpu_model), Linux \(.machine.kernel), \(.started)"' "$folder/checked.jsonl")

30 demands, answered from a record of $(wc -l <"$folder/cases") candidates, and checked in a second one of them and one of $(wc -l <"$folder/chosen") choices at a rate.
$(count 1 '^sure') choices were sure. $(count 5 '^best') are the best of the second record, and the intervals of $(count 5 '^reaches') reach it. $(count 5 '^not sure: names') were
not sure and named it, $(count 5 '^not sure: does') were not sure and did not hold the rate, $(count 5 '^nothing') said rightly that nothing meets the demands.
$(count 5 WRONG) are wrong.

$(column -t -s $'\t' "$folder/verdicts.tsv")
END
[ "$(count 5 WRONG)" = 0 ]
